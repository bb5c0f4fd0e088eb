/** Samples of outputs in the OpenAPI document. */
import { describe, expect, test } from "bun:test";
import { wireSchema } from "../src/author/wire-schema.ts";
import * as z from "../src/author/z.ts";
import { image } from "../src/index.ts";
import { recordSamples, sampleOf } from "../src/server/http/openapi/samples.ts";
import { families } from "../src/server/http/record-json.ts";

const node = z.object({
  value: z.number(),
  get children() {
    return z.array(node);
  },
});

describe("a sample matches its schema:", () => {
  test.each([
    [
      "bounds of numbers",
      z.object({ a: z.int().min(5), b: z.number().lt(0), c: z.int().multipleOf(7), d: z.int().max(-3) }),
    ],
    [
      "lengths",
      z.object({
        text: z.string().min(9).max(12),
        list: z.array(z.boolean()).length(3),
        none: z.array(z.int()).max(0),
      }),
    ],
    [
      "texts of a format",
      z.object({ at: z.iso.datetime(), day: z.iso.date(), url: z.url(), id: z.uuid(), mail: z.email() }),
    ],
    [
      "choices",
      z.object({
        kind: z.enum(["a", "b"]),
        one: z.literal(7),
        maybe: z.string().nullable(),
        any: z.union([z.int(), z.null()]),
      }),
    ],
    ["tuples", z.tuple([z.int(), z.string()])],
    ["records", z.record(z.string(), z.number())],
    ["what refers to itself", node],
    ["pictures", z.object({ image: image(), others: z.array(image()) })],
  ])("%s", (_, schema) => {
    const sample = sampleOf(wireSchema(schema, "output"));
    expect(sample).toBeDefined();
    expect(z.fromJSONSchema({ ...wireSchema(schema, "output") }).safeParse(sample).error).toBeUndefined();
  });
});

test.each([
  ["a list that has to be long", z.array(z.number()).length(384)],
  ["a text with a pattern", z.string().regex(/^[A-Z]{3}-\d{4}$/)],
  ["a text that has to be long", z.string().min(10_000)],
  ["anything", z.object({ x: z.unknown().refine((x) => x !== undefined) })],
])("there is none of %s", (_, schema) => {
  expect(sampleOf(wireSchema(schema, "output"))).toBeUndefined();
});

describe("the samples of a record", () => {
  test.each(families)("of $path have exactly the members of their status", (family) => {
    const samples = recordSamples(family, { output: { y: 1 }, demoOutput: { z: 2 } }, ["pending", "success", "failed"]);
    expect(Object.keys(samples)).toEqual(["pending", "success", "failed"]);
    const members = Object.fromEntries(Object.entries(samples).map(([name, { value }]) => [name, Object.keys(value)]));
    for (const name of ["outputs", "started_at", "error_message"]) expect(members.pending).not.toContain(name);
    for (const name of ["error_message", "errors", "partial_outputs"]) {
      expect(members.success).not.toContain(name);
      if (family.kind === "prediction" || name !== "partial_outputs") expect(members.failed).toContain(name);
    }
    expect(members.failed).not.toContain("outputs");
    if (family.kind === "demo") expect(members.failed).not.toContain("partial_outputs");
  });

  test.each(families)("of $path leave out outputs that have no short sample", (family) => {
    const samples = recordSamples(family, { output: undefined, demoOutput: undefined }, ["success", "canceled"]);
    expect(Object.keys(samples)).toEqual(["canceled"]);
  });
});
