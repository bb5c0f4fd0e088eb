/** A fast check of simple inputs, which accepts only values that zod accepts without changing them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import * as z from "../src/author/z.ts";
import { plainCheck } from "../src/base/schemas/plain-check.ts";

const plain = {
  whole: z.object({ x: z.array(z.int()), a: z.int32().optional(), b: z.number().int().nonnegative().nullable() }),
  limited: z.object({ x: z.array(z.number().min(-1).lt(3)), a: z.number().max(1.5).gt(0).optional() }),
  "of a format": z.object({ x: z.array(z.float32()), a: z.uint32().optional() }),
  numbers: z.object({ x: z.array(z.number()).length(3) }),
  bounded: z.object({ x: z.array(z.number()).min(1).max(4), name: z.string().min(1).max(3).optional() }),
  nested: z.object({ a: z.object({ b: z.array(z.array(z.number())), c: z.boolean().nullable() }) }),
};

const left = z.looseObject({ x: z.number() });
const notPlain = {
  "a default": z.object({ x: z.number().default(1) }),
  "a transform": z.object({ x: z.string().transform(Number) }),
  "a refinement": z.object({ x: z.number() }).refine(() => false),
  "a refined list": z.object({ x: z.array(z.number()).refine(() => false) }),
  "a format of text": z.object({ x: z.email() }),
  "a text that is trimmed": z.object({ x: z.string().trim() }),
  "a number of many": z.object({ x: z.number().multipleOf(3) }),
  "a refined number": z.object({ x: z.int().refine(() => false) }),
  "a refined number that may be null": z.object({
    x: z
      .number()
      .nullable()
      .refine(() => false),
  }),
  "a refined number that may be left out": z.object({
    x: z
      .number()
      .optional()
      .refine(() => false),
  }),
  "a refined number that may be either": z.object({
    x: z
      .number()
      .nullish()
      .refine(() => false),
  }),
  "a text that may be left out and is trimmed": z.object({
    x: z
      .string()
      .optional()
      .overwrite((text) => text?.trim()),
  }),
  "a coerced number": z.object({ x: z.coerce.number() }),
  "an object that takes more": left,
  "an object of zod's own, which drops what it does not know": z.strictObject({ x: z.number() }).strip(),
};

/** Random JSON values. Many are nearly valid, like mistakes of clients. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, "", "ab", "abcd", 0, -0, -1, 1.5, 3, 2 ** 31, 2 ** 53, 1e308, Infinity, "3"),
    fc.array(fc.oneof(fc.double({ noNaN: true }), fc.constantFrom(null, "1", Infinity)), { maxLength: 5 }),
    fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 3, maxLength: 3 }),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("x", "name", "a", "b", "c", "__proto__", "constructor"), tie("value"), {
      maxKeys: 3,
    }),
    fc.record({ x: fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { maxLength: 4 }) }),
    fc.record({
      x: fc.array(fc.constantFrom(0, -1, 1, 2, 2.5, 3, 2 ** 53, 1e39)),
      a: fc.constantFrom(0, 1, 1.5, -1, 2 ** 32),
    }),
    fc.record({
      b: fc.array(fc.array(fc.double({ noNaN: true }), { maxLength: 2 }), { maxLength: 2 }),
      c: fc.constantFrom(null, true, 1),
    }),
  ),
})).value;

test.each(Object.entries(plain))("the fast check for %s accepts what zod accepts", (_, schema) => {
  const check = plainCheck(schema);
  fc.assert(
    fc.property(fc.oneof(json, fc.record({ a: json })), (value) => {
      expect(check?.(value)).toBe(schema.safeParse(value).success);
    }),
    { numRuns: 3000 },
  );
  expect(check?.(JSON.parse('{"x":[1,2,3]}'))).toBe(schema.safeParse({ x: [1, 2, 3] }).success);
});

test.each(Object.entries(notPlain))("there is no fast check for %s", (_, schema) => {
  expect(plainCheck(schema)).toBeUndefined();
});
