/** Calls of methods of TorchScript modules with arguments of any type. Wrong arguments are refused by name. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { CallArgument, CallResult } from "../src/author/session.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { failure } from "./helpers/failure.ts";
import { fixture } from "./helpers/fixture.ts";
import { sessions } from "./helpers/sessions.ts";
import { floats, rowOf } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const path = join(import.meta.dir, "models/methods.pt");
const made = fixture(fixtures, 600_000);
const open = sessions();
const methods = fixture(() => open({ path }));

describe("a method receives", () => {
  const cases: [string, string, CallArgument[], CallResult][] = [
    ["a tensor", "forward", [floats(1, 2)], floats(2, 3)],
    [
      "numbers as int and float, a boolean and a string",
      "plain",
      [3, 2, true, "näme 😀", 0.25],
      "3 2. True näme 😀 0.25",
    ],
    ["the default of an argument that is left out", "plain", [3, 0.5, false, ""], "3 0.5 False  1.5"],
    ["a bigint as int", "plain", [2n ** 60n, 1, true, "x"], `${2n ** 60n} 1. True x 1.5`],
    ["null as None", "optional", [null], null],
    ["a value where None is allowed", "optional", [floats(1, 2), 3], floats(3, 6)],
    [
      "lists of tensors, ints and floats",
      "lists",
      [
        [floats(1), floats(2)],
        [2, 3],
        [0.5, 0.25],
      ],
      floats(15.75),
    ],
    ["a tuple", "pair", [[floats(1), 4]], { low: floats(0), count: 5 }],
  ];
  for (const [what, method, args, expected] of cases) {
    test(what, async () => {
      expect(await methods.call(method, args)).toEqual(expected);
    });
  }
});

describe("a method returns", () => {
  test("numbers, booleans, strings and None in a tuple, and an int beyond 2^53 as bigint", async () => {
    expect(await methods.call("numbers", [])).toEqual([7, 2n ** 60n, 0.5, true, "text", null]);
  });

  test("a dict of lists of tensors", async () => {
    const x = floats(1, 2);
    expect(await methods.call("nested", [x])).toEqual({ once: [x], twice: [x, floats(2, 4)] });
  });

  test("null from a method without a result", async () => {
    expect(await methods.call("bump", [])).toBeNull();
  });

  test("a tensor that later calls do not overwrite, even if the module does", async () => {
    const session = await open({ path });
    const before = await session.call("keep", []);
    await session.call("bump", []);
    expect(before).toEqual(floats(0, 0));
    expect(await session.call("keep", [])).toEqual(floats(1, 1));
  });
});

describe("a module", () => {
  test("keeps its state between calls, separately for each session", async () => {
    const [one, other] = await Promise.all([open({ path }), open({ path })]);
    await Promise.all([one.call("bump", []), one.call("bump", []), other.call("bump", [])]);
    expect(await one.call("keep", [])).toEqual(floats(2, 2));
    expect(await other.call("keep", [])).toEqual(floats(1, 1));
  });

  test("runs calls and batches in the order in which they were started", async () => {
    const session = await open({ path });
    const results: CallResult[] = [];
    for (let i = 0; i < 20; i++) session.call("bump", []);
    session.call("keep", []).then((kept) => results.push(kept));
    for (let i = 0; i < 20; i++) session.call("bump", []);
    results.push(await session.call("keep", []));
    expect(results).toEqual([floats(20, 20), floats(40, 40)]);
  });

  test("receives copies of arguments, which may be overwritten at once", async () => {
    const given = floats(1, 2);
    const result = methods.call("forward", [given]);
    given.data.fill(9);
    expect(await result).toEqual(floats(2, 3));
  });

  test("whose forward runs in batches gives the same result in a call", async () => {
    const declared = await open({ path, inputs: { x: float32(2) }, outputs: { y: float32(2) } });
    const [batch] = await declared.run([[floats(1, 2)], [floats(3, 4)]]);
    const matrix = tensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
    expect(await declared.call("forward", [matrix])).toEqual(batch ?? null);
  });
});

describe("an AOTInductor package", () => {
  test("has the method forward, with results in order", async () => {
    const fixture = made.get("aotinductor float32 one tuple");
    const session = await open({ path: fixture.path });
    const [x] = fixture.items[5] ?? [];
    if (x === undefined) throw new Error("the fixture has no item");
    const result = await session.call("forward", [{ ...x, shape: [1, ...x.shape] }]);
    expect(result).toEqual(rowOf(fixture.expected, 5));
  });

  test("has no other method, and accepts only tensors", async () => {
    const session = await open({ path: made.get("aotinductor float32 one tuple").path });
    expect(await failure(session.call("reset", []))).toBe(
      "run_failed: an AOTInductor package has no method reset; it has (forward)",
    );
    expect(await failure(session.call("forward", [1]))).toBe(
      "tensor_invalid: forward, argument 0: expected Tensor, received the number 1",
    );
  });
});

describe("wrong arguments are refused:", () => {
  const cases: [string, string, CallArgument[], string][] = [
    ["an unknown method", "vote", [], "run_failed: the weights have no method vote; they have (forward, bump, "],
    ["a number with a fraction for an int", "plain", [1.5, 1, true, ""], "expected int, received the number 1.5"],
    ["a string for a float", "plain", [1, "1", true, ""], "plain, argument scale: expected float, received a string"],
    ["a number for a tensor", "forward", [1], "forward, argument x: expected Tensor, received the number 1"],
    ["a wrong element of a list", "lists", [[floats(1)], [1, true], []], "argument whole[1]: expected int, received"],
    ["a tuple of another length", "pair", [[floats(1)]], "argument given: expected 2 elements, received 1"],
    ["too few arguments", "plain", [1], "scale: float, flag: bool, text: str, number: float?), received 1 argument"],
    ["too many arguments", "bump", [1, 2], "tensor_invalid: bump takes (), received 2 arguments"],
    ["a bigint beyond 64 bits", "plain", [2n ** 63n, 1, true, ""], "the bigint does not fit in 64 bits"],
    [
      "a tensor whose shape and data differ",
      "forward",
      [{ dtype: "float32", shape: [3], data: new Float32Array(2) }],
      "tensor_invalid: forward, argument 0: shape [3] has 3 elements, but the data has 2",
    ],
    [
      "a tensor with another array than its dtype has",
      "forward",
      [{ dtype: "float32", shape: [2], data: new Float64Array(2) }],
      "tensor_invalid: forward, argument 0: Float64Array cannot hold float32",
    ],
    ["a dict whose keys are no strings", "by_number", [floats(1)], "by_number gave a dict whose keys are no strings"],
    ["complex numbers", "complex", [floats(1)], "complex gave ComplexFloat(1), a dtype that sconce lacks"],
    ["what the method raises", "raises", [floats(1)], "run_failed: this is not wanted"],
  ];
  for (const [what, method, args, message] of cases) {
    test(what, async () => {
      expect(await failure(methods.call(method, args))).toContain(message);
      expect(await methods.call("forward", [floats(0)])).toEqual(floats(1));
    });
  }

  test("a list that contains itself, or nests too deep", async () => {
    const cyclic: CallArgument[] = [];
    cyclic.push(cyclic);
    const nested = (depth: number): CallArgument => (depth === 0 ? 1 : [nested(depth - 1)]);
    const message = "tensor_invalid: lists, argument 1: lists may nest 64 deep";
    expect(await failure(methods.call("lists", [[], cyclic, []]))).toBe(message);
    expect(await failure(methods.call("lists", [[], nested(65), []]))).toBe(message);
    expect(await failure(methods.call("lists", [[], nested(64), []]))).toBe(
      "tensor_invalid: lists, argument whole[0]: expected int, received a list",
    );
  });
});
