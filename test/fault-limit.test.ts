/** Invalid inputs with many faults: validation stops after the faults that the client gets. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SconceError } from "../src/base/errors.ts";
import { limitFaults } from "../src/base/schemas/fault-limit.ts";
import { z } from "../src/index.ts";
import { Faults } from "../src/pipeline/inputs/input-decoder.ts";

const MAX = 1000;

const schemas: Readonly<Record<string, () => z.ZodType>> = {
  "a list of numbers": () => z.array(z.number()),
  "a bounded list": () => z.array(z.number().max(5)).max(3000),
  "lists in lists": () => z.array(z.array(z.number().max(5))),
  "a list in an object": () => z.object({ x: z.array(z.int()), y: z.array(z.string()).optional() }),
  "a list that is checked": () =>
    z
      .array(z.number())
      .min(2)
      .max(4000)
      .refine((list) => list[0] !== 2),
  "a list of so many": () => z.array(z.number()).length(2500),
  "a list of objects": () => z.array(z.object({ x: z.number() })),
  "a list of unions": () => z.array(z.union([z.number().max(5), z.boolean()])),
  "a record": () => z.record(z.string(), z.number()),
  "a list that is made later": () => z.lazy(() => z.array(z.number())),
  "a list with a default": () => z.object({ x: z.array(z.number()).default([1]) }),
  "a list that is transformed": () => z.array(z.number()).transform((list) => list.length),
};

const element = fc.constantFrom<unknown>(1, 2, 9, "a", null, true, 1.5, [1, 9], ["a"], { x: 1 }, {});
/** Random lists of up to 5000 elements, most of them equal. */
const list = fc
  .record({
    of: element,
    count: fc.constantFrom(0, 3, 1024, 1025, 2500, 5000),
    others: fc.array(fc.tuple(fc.nat(4999), element)),
  })
  .map(({ of, count, others }) => {
    const made: unknown[] = Array(count).fill(of);
    for (const [at, other] of others) if (at < count) made[at] = other;
    return made;
  });
const value = fc.oneof(
  list,
  list.map((x) => ({ x })),
  fc.record({ x: list, y: list }),
  list.map((inner) => [inner, [1], inner]),
  list.map((values) => Object.fromEntries(values.map((one, i) => [`k${i}`, one]))),
);

/** The faults that the client receives for a parsed value; undefined if there are none. */
function told({ error }: z.ZodSafeParseResult<unknown>): unknown {
  const faults = new Faults();
  faults.add(error?.issues ?? [], 0);
  try {
    faults.throwIfAny();
    return undefined;
  } catch (refusal) {
    if (!(refusal instanceof SconceError)) return refusal;
    return refusal.faults?.map(({ pointer, detail }) => ({ pointer: pointer.replace(/^\/0/, ""), detail }));
  }
}

describe("a schema that stops validation after a thousand faults", () => {
  test.each(Object.entries(schemas))("finds the same faults as without a limit (%s)", (_, make) => {
    const [whole, limited] = [make(), make()];
    limitFaults(limited, MAX);
    fc.assert(
      fc.property(value, (given) => {
        const [expected, found] = [whole.safeParse(given), limited.safeParse(given)];
        expect(found.success).toBe(expected.success);
        expect(Bun.deepEquals(found.data, expected.data, true)).toBe(true);
        // `expect(…).toEqual` would print thousands of faults.
        expect(Bun.deepEquals(told(found), told(expected))).toBe(true);
        expect(found.error?.issues.length ?? 0).toBeLessThanOrEqual(MAX + 2 * 1024);
      }),
      { numRuns: 40 },
    );
  });

  test("reports the faults of the closest option of a union", () => {
    const schema = z.union([z.array(z.number()), z.array(z.string()).min(5001)]);
    limitFaults(schema, MAX);
    expect(told(schema.safeParse(Array(5000).fill("a")))).toEqual([
      { pointer: "", detail: expect.stringContaining("5001") },
    ]);
  });

  const wrong = Array(20_000).fill("a");
  test.each([
    ["a list", z.array(z.number()), wrong],
    ["a list of at most so many", z.array(z.number()).max(50_000), wrong],
    ["a list of so many", z.array(z.number()).length(20_000), wrong],
    ["a record", z.record(z.string(), z.number()), { ...wrong }],
    ["a list in an object", z.object({ x: z.array(z.number()).min(1) }), { x: wrong }],
  ])("looks no further, however often it is asked (%s)", (_, schema, given) => {
    limitFaults(schema, MAX);
    for (let time = 0; time < 3; time++) {
      const count = schema.safeParse(given).error?.issues.length;
      expect(count).toBeGreaterThan(MAX);
      expect(count).toBeLessThanOrEqual(MAX + 1024);
    }
  });

  test("stops at its limit, and runs no refinement on values that it has not checked", () => {
    let looked = 0;
    let asked = 0;
    const one = z.number().refine(() => {
      looked += 1;
      return false;
    });
    const schema = z.array(one).refine(() => {
      asked += 1;
      return true;
    });
    limitFaults(schema, MAX);
    limitFaults(schema, MAX);
    expect(schema.safeParse(Array(100_000).fill(1)).success).toBe(false);
    expect(looked).toBeLessThan(2500);
    expect(asked).toBe(0);
  });

  test("names a limited number of unknown fields", () => {
    const schema = z.object({ x: z.number() });
    limitFaults(schema, MAX);
    const given = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}`, i]));
    const [issue] = schema.safeParse({ x: 1, ...given }).error?.issues ?? [];
    expect(issue?.code === "unrecognized_keys" && issue.keys.length).toBe(MAX + 1);
  });
});
