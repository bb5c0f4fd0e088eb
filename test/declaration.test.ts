/** Declarations of models that `defineModel` refuses, with the field and the fix, and declarations that it accepts. */
import { describe, expect, test } from "bun:test";
import { checkDeclaration } from "../src/author/declaration-check.ts";
import { image } from "../src/author/fields.ts";
import { float32 } from "../src/author/tensor.ts";
import * as z from "../src/author/z.ts";
import { SconceError } from "../src/base/errors.ts";
import { parseReference } from "../src/package/store/reference.ts";

function faultsOf(change: Readonly<Record<string, unknown>>): string[] {
  return checkDeclaration({
    name: "small",
    input: z.object({ x: z.number() }),
    output: z.object({ y: z.number() }),
    tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
    weights: "small.pt",
    preprocess: () => ({}),
    postprocess: () => ({}),
    ...change,
  });
}

const demoWith = (output: z.ZodType) => ({ demo: { output, predict: () => ({}) } });
const trimmed = z.string().transform((text) => text.trim());
const tree = z.object({
  name: trimmed,
  get children() {
    return z.array(tree);
  },
});
const asText = z.codec(z.string(), z.number(), { decode: Number, encode: String });
const asUnknown = z.codec(z.unknown(), z.number(), { decode: Number, encode: String });

describe("an output with a transform is refused with its field, since zod cannot encode it:", () => {
  test.each([
    ["at the top", trimmed, "output: "],
    ["in a field", z.object({ a: z.object({ b: trimmed }) }), "output.a.b: "],
    ["in a list", z.object({ names: z.array(trimmed.nullable()) }), "output.names: "],
    ["in a union", z.object({ a: z.union([z.number(), trimmed]) }), "output.a: "],
    ["behind a codec", z.object({ a: asText.pipe(z.transform(String)) }), "output.a: "],
    ["as a preprocess", z.object({ a: z.preprocess(String, z.string()) }), "output.a: "],
    ["in a recursive schema", tree, "output.name: "],
    ["in a lazy schema", z.object({ a: z.lazy(() => trimmed) }), "output.a: "],
  ])("%s", (_, output, field) => {
    const [fault, ...others] = faultsOf({ output });
    expect(others).toEqual([]);
    expect(fault).toStartWith(`${field}has a transform`);
    expect(fault).toContain("z.codec");
  });

  test("in a demo's output", () => {
    expect(faultsOf(demoWith(z.object({ a: trimmed })))).toEqual([
      expect.stringMatching(/^demo\.output\.a: .*z\.codec/),
    ]);
  });

  test("but is accepted in an input, which zod only decodes", () => {
    expect(faultsOf({ input: z.object({ x: trimmed }) })).toEqual([]);
  });
});

describe("an output that can be undefined is refused:", () => {
  const optional = z.string().optional();
  test.each([
    ["unknown", z.unknown()],
    ["any", z.any()],
    ["undefined", z.undefined()],
    ["void", z.void()],
    ["optional", optional],
    ["optional within", optional.nullable().readonly().default("a")],
    ["a union with undefined", z.union([z.string(), z.undefined()])],
    ["two unknowns at once", z.intersection(z.unknown(), z.any())],
    ["a lazy unknown", z.lazy(() => z.unknown())],
    ["a codec from unknown", asUnknown],
  ])("%s", (_, output) => {
    for (const [field, change] of [
      ["output", { output }],
      ["demo.output", demoWith(output)],
    ] as const) {
      const [fault, ...others] = faultsOf(change);
      expect(others).toEqual([]);
      expect(fault).toStartWith(`${field}: may be undefined`);
      expect(fault).toContain("z.json()");
    }
  });

  test("but not optional fields, nor a value with a default", () => {
    for (const output of [
      z.object({ a: optional, b: z.unknown(), c: z.any() }),
      z.string().default("a"),
      optional.nonoptional(),
      z.intersection(z.unknown(), z.looseObject({ a: z.number() })),
    ]) {
      expect(faultsOf({ output })).toEqual([]);
    }
  });
});

describe("a type without a JSON form is refused with its field and a replacement:", () => {
  const later = async (text: string) => text;
  test.each([
    ["a date", z.date(), "z.codec(z.iso.datetime(), z.date(), "],
    ["a bigint", z.bigint(), "z.codec(z.string()"],
    ["a file of zod", z.file(), 'write file() from "sconce"'],
    ["a map", z.map(z.string(), z.number()), "z.record()"],
    ["an asynchronous refinement", z.string().refine(async () => true), "do it in preprocess"],
    ["an asynchronous codec", z.codec(z.string(), z.string(), { decode: later, encode: later }), "do it in preprocess"],
  ])("%s", (_, type, fix) => {
    const schema = z.object({ list: z.array(z.object({ a: type.optional() })) });
    for (const [field, change] of [
      ["input", { input: schema }],
      ["output", { output: schema }],
      ["demo.output", demoWith(schema)],
    ] as const) {
      const [fault, ...others] = faultsOf(change);
      expect(others).toEqual([]);
      expect(fault).toStartWith(`${field}.list.a: `);
      expect(fault).toContain(fix);
    }
  });

  test("but is accepted inside a codec", () => {
    const day = z.codec(z.iso.datetime(), z.date(), {
      decode: (text) => new Date(text),
      encode: (date) => date.toISOString(),
    });
    expect(faultsOf({ input: z.object({ day }), output: z.object({ day }) })).toEqual([]);
  });
});

test("codecs, which encode and decode, are accepted", () => {
  const lists = z.object({
    picture: image(),
    day: asText,
    text: z.string().trim().min(1),
    kind: z.stringbool(),
  });
  for (const output of [lists, image(), z.json(), z.nullable(z.number()), z.array(z.record(z.string(), z.json()))]) {
    expect(faultsOf({ output, ...demoWith(output) })).toEqual([]);
  }
});

describe("a declared name", () => {
  test.each(["digits", "vision/digits", "a.b_c__d---e", "a".repeat(255), `${"a/".repeat(127)}b`])(
    "is valid if references can name it: %s",
    (name) => {
      expect(faultsOf({ name })).toEqual([]);
      expect(parseReference(name)).toMatchObject({ repository: name });
    },
  );

  test.each(["", "Digits", "a..b", "a___b", "a/", "/a", "-a", "a b", "a".repeat(256)])(
    "is refused if references refuse it: %p",
    (name) => {
      expect(faultsOf({ name })).toEqual(
        expect.arrayContaining([
          expect.stringMatching(/^name: must (be lower-case letters|have at most 255 characters)/),
        ]),
      );
      expect(() => parseReference(name)).toThrow(SconceError);
    },
  );
});

describe("several named weights", () => {
  const several = { detector: "detector.pt", reader: "reader.pt" };

  test("are accepted with predict", () => {
    expect(faultsOf({ weights: several, predict: () => ({}) })).toEqual([]);
  });

  test("are refused without predict, since nothing would call them", () => {
    expect(faultsOf({ weights: several })).toEqual([
      "predict: is missing; weights by name are for predict(batch, sessions) to call",
    ]);
  });

  test.each([
    ["none", {}],
    ["a list", ["a.pt"]],
    ["a name that is none", { "my weights": "a.pt" }],
    ["a number", { a: 1 }],
    ["an empty path", ""],
  ])("are refused as %s", (_, weights) => {
    expect(faultsOf({ weights, predict: () => ({}) })).toEqual([
      `weights: must be the path of a file in the model's folder, or several by name, e.g. { detector: "detector.pt", reader: "reader.pt" }`,
    ]);
  });

  test("operators are declared as a list of files", () => {
    expect(faultsOf({ operators: "ops.so" })).toEqual(['operators: must be a list of files, e.g. ["ops.so"]']);
  });
});

describe("an output in parts", () => {
  async function* parts() {
    yield {};
    return {};
  }
  function* syncParts() {
    yield {};
    return {};
  }
  const part = z.string();

  test("is declared by `part` and an async generator", () => {
    expect(faultsOf({ part, postprocess: parts })).toEqual([]);
    expect(faultsOf({ part, predict: parts, postprocessPart: () => "" })).toEqual([]);
    const tensors = { inputs: { x: float32() }, outputs: { y: float32() }, parts: { z: float32() } };
    expect(faultsOf({ part, tensors, predict: parts, postprocessPart: () => "" })).toEqual([]);
    expect(faultsOf({ part: image(), postprocess: parts })).toEqual([]);
  });

  test.each([
    ["postprocess yields without part", { postprocess: parts }, "part: is missing; async *postprocess yields parts"],
    ["predict yields without part", { predict: parts }, "part: is missing; async *predict yields parts"],
    ["predict yields without postprocessPart", { part, predict: parts }, "postprocessPart: is missing"],
    ["postprocess is a plain generator", { part, postprocess: syncParts }, "postprocess: is a generator that is not"],
    [
      "nothing yields rows for postprocessPart",
      { part, postprocessPart: () => "" },
      "postprocessPart: is for the rows",
    ],
    ["the part has a transform", { part: trimmed, postprocess: parts }, "part: has a transform"],
    ["the part is a date", { part: z.date(), postprocess: parts }, "part: "],
    ["the part is no schema", { part: "text", postprocess: parts }, "part: "],
  ])("is refused with the fix if %s", (_, change, message) => {
    const [fault, ...others] = faultsOf(change);
    expect(others).toEqual([]);
    expect(fault).toStartWith(message);
  });
});
