/** The fields that the model's page shows for an input schema, tested without a browser. */
import { expect, test } from "bun:test";
import { wireSchema } from "../src/author/wire-schema.ts";
import { SchemaNode } from "../src/base/schemas/json-schema.ts";
import { initialOf, kindOf } from "../src/http/page/client/schema.ts";
import { file, image, z } from "../src/index.ts";

const shown = (schema: z.ZodType) => SchemaNode.of(wireSchema(schema, "input"));

test.each([
  ["text", z.string().nullable()],
  ["number", z.number().nullish()],
  ["number", z.int().min(1).nullable()],
  ["switch", z.boolean().nullable()],
  ["object", z.object({ x: z.number() }).nullable()],
  ["json", z.array(z.string()).nullable()],
  ["files", z.array(image()).nullable()],
  ["choice", z.enum(["a", "b"]).nullable()],
  ["text", z.url()],
  ["text", z.url().nullable()],
  ["file", image()],
  ["file", file({ mediaTypes: ["audio/wav"] }).nullable()],
  ["json", z.union([z.number(), z.string()])],
  ["json", z.union([z.number(), z.string()]).nullable()],
])("a field of the kind %s is shown, null or not (%#)", (name, schema) => {
  expect<string>(kindOf(shown(schema))).toBe(name);
});

test("the field of a nullable value starts with its default", () => {
  const schema = shown(z.object({ x: z.number().nullable().default(3), y: z.boolean().nullable() }));
  expect(initialOf(schema)).toEqual({ x: 3, y: false });
});
