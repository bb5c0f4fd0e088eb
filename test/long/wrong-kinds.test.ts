/** Large wrong inputs are shortened before validation, which does not change the reported faults. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SconceError } from "../../src/base/errors.ts";
import { float32, image, ndarray, z } from "../../src/index.ts";
import { expectedKinds } from "../../src/server/inputs/expected-kinds.ts";
import { Faults, InputDecoder } from "../../src/server/inputs/input-decoder.ts";
import { withoutWrongKinds } from "../../src/server/inputs/wrong-kinds.ts";

const tree = z.object({
  n: z.number(),
  get children() {
    return z.array(tree).optional();
  },
});

const schemas: Readonly<Record<string, z.ZodType>> = {
  numbers: z.object({ x: z.array(z.number()), y: z.string().optional() }),
  lists: z.object({ x: z.array(z.array(z.number())).max(3), y: z.boolean().nullable() }),
  objects: z.looseObject({ x: z.object({ a: z.number() }), y: z.record(z.string(), z.number()) }),
  unions: z.object({
    x: z.union([z.number(), z.array(z.string())]),
    y: z.union([z.array(z.number()), z.array(z.string())]),
  }),
  coerced: z.object({ x: z.coerce.string().min(5), y: z.number().catch(1) }),
  prepared: z.object({ x: z.preprocess((x) => JSON.stringify(x), z.string().max(9)), y: z.string().default("a") }),
  tensors: z.object({ x: ndarray(float32("n")), y: image().optional() }),
  trees: tree,
};

/** Random values, most of them nearly valid. */
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    fc.constantFrom<unknown>(1, 2.5, "a", 'a"],{\\', true, null, [], {}, [1, 2], ["a", "b"], { a: 1 }),
    fc.array(tie("any"), { maxLength: 8 }),
    fc.dictionary(fc.constantFrom("x", "y", "a", "n", "children", 'q"\\'), tie("any"), { maxKeys: 4 }),
  ),
})).any;
const input = fc.oneof(
  fc.record({ x: value, y: value }, { requiredKeys: [] }),
  fc.record({ n: value, children: fc.array(value) }),
  value,
);

/** The faults of these inputs that a client receives; undefined if they are valid. */
function told(decoder: InputDecoder, inputs: readonly unknown[]): unknown {
  const faults = new Faults();
  decoder.list(inputs, 0, faults);
  try {
    faults.throwIfAny();
    return undefined;
  } catch (error) {
    return error instanceof SconceError ? error.faults : error;
  }
}

const space = fc.constantFrom(undefined, 1, "\t");

describe("the shortened text", () => {
  test.each(Object.entries(schemas))(
    "has the same faults as the whole text, or the whole text is validated (%s)",
    (_, schema) => {
      const decoder = new InputDecoder(schema);
      fc.assert(
        fc.property(
          fc.array(input, { minLength: 1, maxLength: 4 }),
          space,
          fc.integer({ min: 1, max: 3 }),
          (inputs, indent, max) => {
            const text = JSON.stringify(inputs, null, indent).slice(1, -1);
            const left = withoutWrongKinds(new TextEncoder().encode(text), decoder.expected, max);
            if (left === undefined) return;
            expect(left.length).toBeLessThan(Buffer.byteLength(text));
            const rest: unknown[] = JSON.parse(`[${Buffer.from(left)}]`);
            expect(rest.length).toBe(inputs.length);
            const [expected, found] = [told(decoder, JSON.parse(`[${text}]`)), told(decoder, rest)];
            // `withoutWrongKinds` cuts a list only behind `max` wrong elements, so the first `max` faults are the same.
            if (Array.isArray(found) && Array.isArray(expected)) {
              expect(found.slice(0, max)).toEqual(expected.slice(0, max));
            } else expect(found).toBe(expected);
          },
        ),
        { numRuns: 1500 },
      );
    },
  );

  test("has no more wrong elements than are reported, and these are empty", () => {
    const { x: numbers } = { x: expectedKinds(z.object({ x: z.array(z.number()) })) };
    const cut = (text: string) => {
      const left = withoutWrongKinds(new TextEncoder().encode(text), numbers, 2);
      return left === undefined ? undefined : Buffer.from(left).toString();
    };
    expect(cut('{"x":[1,{"a":[1]},2,[[3]],"a","b",5,6]}')).toBe('{"x":[1,{},2,[],"a"]}');
    expect(cut('{"x":[1], "y": {"z": [1,2]}},{"x":{"a":1}}')).toBe('{"x":[1], "y": {}},{"x":{}}');
    expect(cut('{"x":[1,2,3]},{"x":["a","b"]}')).toBeUndefined();
    for (const broken of ['{"x":[{"a":1}', '{"x":[{"a":1}]]', '{"x" [{"a":1}]}', '{"x":[{"a":1}],}', "[1,", ""]) {
      expect(cut(broken)).toBeUndefined();
    }
  });
});
