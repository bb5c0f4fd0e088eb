/**
 * Recursive schemas in /openapi.json. zod writes references relative to a schema; sconce makes them relative to the
 * document.
 */
import { describe, expect, test } from "bun:test";
import { wireSchema } from "../src/author/wire-schema.ts";
import * as z from "../src/author/z.ts";
import { targetOf } from "../src/base/json.ts";
import type { JsonSchema } from "../src/base/schemas/json-schema.ts";
import { documentOf } from "../src/http/openapi/document.ts";
import { plainDocument, tableOfRoutes } from "./helpers/routes.ts";

const node = z.object({
  value: z.number(),
  get children() {
    return z.array(node);
  },
});
const inner = wireSchema(z.object({ tree: node, again: node }), "input");
const whole = wireSchema(node, "output");
const any = wireSchema(z.json(), "demo.output");

function documentWith(inputSchema: JsonSchema, outputSchema: JsonSchema, demoOutputSchema: JsonSchema): JsonSchema {
  const maxInputs = { prediction: 100, demo: 10 };
  const model = { name: "trees", tag: "0", description: "", shortExample: undefined, maxInputs };
  return { ...documentOf(tableOfRoutes(), { ...model, inputSchema, outputSchema, demoOutputSchema }, plainDocument) };
}

describe("a document with recursive schemas", () => {
  test("has the definitions as components, named after their schema", () => {
    const document = documentWith(inner, inner, whole);
    const own = { type: "object", required: ["value", "children"] };
    for (const name of ["Input", "Output"]) {
      const reference = `#/components/schemas/${name}_schema0`;
      expect(targetOf(`#/components/schemas/${name}`, document)).toMatchObject({
        properties: { tree: { $ref: reference }, again: { $ref: reference } },
      });
      expect(targetOf(reference, document)).toMatchObject({
        ...own,
        properties: { children: { items: { $ref: reference } } },
      });
    }
    expect(targetOf("#/components/schemas/DemoOutput", document)).toMatchObject({
      ...own,
      properties: { children: { items: { $ref: "#/components/schemas/DemoOutput" } } },
    });
    expect(JSON.stringify(document)).not.toContain("$defs");
  });
});

describe("a component", () => {
  const componentOf = (schema: z.ZodType, name = "Input") =>
    targetOf(`#/components/schemas/${name}`, documentWith(wireSchema(schema, "input"), any, any));

  test("states the lengths of tuples, and keeps the schema of further elements", () => {
    const box = z.tuple([z.number(), z.number()]);
    const closed = { type: "array", prefixItems: [{ type: "number" }, { type: "number" }], minItems: 2, maxItems: 2 };
    expect(componentOf(z.object({ box, rest: z.tuple([z.string()], z.number()) }))).toMatchObject({
      properties: {
        box: closed,
        rest: { type: "array", prefixItems: [{ type: "string" }], items: { type: "number" }, minItems: 1 },
      },
    });
    expect(componentOf(box)).toEqual(closed);
  });

  test("renames ids that are no valid component names", () => {
    const schema = z.object({ text: z.string().meta({ id: "a/b" }) });
    expect(componentOf(schema)).toMatchObject({ properties: { text: { $ref: "#/components/schemas/Input_a_b" } } });
    expect(componentOf(schema, "Input_a_b")).toMatchObject({ type: "string" });
  });
});
