/** Facts that sconce reads from a compiled package before it loads its code: processor features, inputs and outputs. */
import { describe, expect, test } from "bun:test";
import { packageNames, packageOrder } from "../src/engine/program/call-spec.ts";
import type { Processor } from "../src/machine/processor.ts";
import { processorNeeds, requireProcessor } from "../src/machine/processor-needs.ts";

const processor = (flags?: string): Processor => ({
  machine: "x86_64",
  name: "Test CPU",
  flags: flags === undefined ? undefined : new Set(flags.split(" ")),
});
const needs = (...features: string[]) => ({ machine: "x86_64", features });

test("a processor that lacks features of a package is refused, unless the system does not tell its features", () => {
  expect(() => requireProcessor(needs("avx2", "fma"), processor("fma avx2 avx"))).not.toThrow();
  expect(() => requireProcessor(needs("avx2"), processor())).not.toThrow();
  expect(() => requireProcessor(needs("amx_tile", "avx2", "fma"), processor("fma"))).toThrow(
    "the package was compiled for a processor with amx_tile, avx2, which this one (Test CPU) lacks",
  );
});

test("needs are the vector instructions of the metadata", () => {
  const stated = { machine: "AMD64", isas: "AMX_TILE AVX512" };
  expect(processorNeeds({ ...stated, device: "cuda" })).toEqual({ machine: "x86_64", features: [] });
  expect(processorNeeds({ ...stated, device: "cpu" })).toEqual({
    machine: "x86_64",
    features: ["amx_bf16", "amx_int8", "amx_tile", "avx512bw", "avx512dq", "avx512f", "avx512vl", "fma"],
  });
});

describe("a call specification", () => {
  const tensor = { type: null, context: null, children_spec: [] };
  const container = (type: string, context: unknown, ...children: object[]) => {
    return { type, context: JSON.stringify(context), children_spec: children };
  };
  const text = (json: unknown) => JSON.stringify([1, json]);
  const source = (inputs: string, outputs: string) => `in_spec_ = R"(${inputs})";\n  out_spec_ = R"(${outputs})";`;
  const call = (positional: number, ...named: string[]) =>
    container(
      "builtins.tuple",
      null,
      container("builtins.tuple", null, ...Array(positional).fill(tensor)),
      container("builtins.dict", named, ...named.map(() => tensor)),
    );

  test("gives the places of inputs by order and by name, and of outputs by name", () => {
    const outputs = container("collections.OrderedDict", ["größe", "b"], tensor, tensor);
    const given = source(text(call(1, "z", "y")), text(outputs));
    expect(packageOrder(given, { inputs: ["x", "y", "z"], outputs: ["b", "größe"] })).toEqual({
      inputs: [0, 2, 1],
      outputs: [1, 0],
    });
  });

  test("is joined from several strings if it is long", () => {
    const named = text(call(0, "image", "mask"));
    const split = `${named.slice(0, 90)})"\nR"(${named.slice(90)}`;
    expect(packageNames(source(split, text(tensor))).inputs).toEqual(["image", "mask"]);
    const inputs = text(call(2));
    const cut = `${inputs.slice(0, 20)})"\nR"(${inputs.slice(20)}`;
    expect(packageOrder(source(cut, text(tensor)), { inputs: ["a", "b"], outputs: ["y"] })).toEqual({
      inputs: [0, 1],
      outputs: [0],
    });
  });

  test("counts the tensors of nested inputs and outputs in PyTorch's order", () => {
    const pair = container("builtins.dict", ["a", "b"], tensor, container("builtins.list", null, tensor, tensor));
    const inputs = container(
      "builtins.tuple",
      null,
      container("builtins.tuple", null, pair, tensor),
      container("builtins.dict", ["z"], tensor),
    );
    const given = source(text(inputs), text(container("builtins.tuple", null, tensor, pair)));
    expect(packageOrder(given, { inputs: ["z", "p", "q", "r", "s"], outputs: ["j", "k", "l", "m"] })).toEqual({
      inputs: [1, 2, 3, 4, 0],
      outputs: [0, 1, 2, 3],
    });
  });

  test.each([
    [
      "an input by name that is nested",
      source(
        text(
          container(
            "builtins.tuple",
            null,
            container("builtins.tuple", null),
            container("builtins.dict", ["x"], container("builtins.list", null, tensor)),
          ),
        ),
        text(tensor),
      ),
      'the input "x" of the package is a builtins.list, by name',
    ],
    ["other JSON", source("[1, {}]", text(tensor)), "is not what PyTorch writes"],
    ["no JSON", source("{", text(tensor)), "is not what PyTorch writes"],
    ["none", "", "the package has no call specification"],
  ])("is refused by name: %s", (_, given, message) => {
    expect(() => packageOrder(given, { inputs: ["x"], outputs: ["y"] })).toThrow(message);
  });
});
