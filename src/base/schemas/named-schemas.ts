/** Divides a JSON Schema into schemas with names, for any kind of document. */
import { isObject } from "../json.ts";
import type { JsonSchema } from "./json-schema.ts";

/**
 * Divides a schema: `#` becomes the schema `name`, and `#/$defs/node` becomes `Input_node` for the name `Input`. In tuples, `maxItems` replaces
 * `items: false`, which some generators of clients do not support.
 * @param schema a complete JSON Schema, whose references lead to `#` or into `$defs`
 * @param referenceTo the reference to a named schema
 */
export function namedSchemas(
  name: string,
  schema: JsonSchema,
  referenceTo: (name: string) => JsonSchema,
): ReadonlyMap<string, JsonSchema> {
  const nameOf = (key: string) => `${name}_${key.replace(/^_+/, "").replace(/[^A-Za-z0-9._-]/g, "_")}`;
  const targetOf = (reference: string) =>
    reference === "#" ? name : nameOf(reference.slice("#/$defs/".length).replaceAll("~1", "/").replaceAll("~0", "~"));
  const { $defs = {}, ...body } = JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key === "$ref" && typeof value === "string") return referenceTo(targetOf(value)).$ref;
    if (!isObject(value) || value.items !== false || !Array.isArray(value.prefixItems)) return value;
    const { items: _, ...tuple } = value;
    return { ...tuple, maxItems: value.prefixItems.length };
  });
  const inner = Object.entries<JsonSchema>($defs).map(([key, definition]) => [nameOf(key), definition] as const);
  return new Map([[name, body], ...inner]);
}
