/** Converts a JSON Schema to components of an OpenAPI document. In an OpenAPI document `#` means the whole document, so references change. */
import { isObject } from "../../base/json.ts";
import type { JsonSchema } from "../../base/schemas/json-schema.ts";

/**
 * Converts a JSON Schema to components: `#` becomes the component `name`, and the schema `#/$defs/node` the component `Input_node`. In tuples,
 * `maxItems` replaces `items: false`, which some client generators do not support.
 *
 * @param schema a complete JSON Schema, whose references lead to `#` or into `$defs`
 * @returns the components by name
 */
export function componentsOf(name: string, schema: JsonSchema): ReadonlyMap<string, JsonSchema> {
  const nameOf = (key: string) => `${name}_${key.replace(/^_+/, "").replace(/[^A-Za-z0-9._-]/g, "_")}`;
  const targetOf = (reference: string) =>
    reference === "#" ? name : nameOf(reference.slice("#/$defs/".length).replaceAll("~1", "/").replaceAll("~0", "~"));
  const { $defs = {}, ...body } = JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key === "$ref" && typeof value === "string") return referenceTo(targetOf(value)).$ref;
    if (!isObject(value) || value.items !== false || !Array.isArray(value.prefixItems)) return value;
    const { items: _, ...tuple } = value;
    return { ...tuple, maxItems: value.prefixItems.length };
  });
  const definitions = Object.entries<JsonSchema>($defs).map(([key, definition]) => [nameOf(key), definition] as const);
  return new Map([[name, body], ...definitions]);
}

export function referenceTo(component: string): JsonSchema {
  return { $ref: `#/components/schemas/${component}` };
}
