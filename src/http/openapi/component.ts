/** Converts a JSON Schema to components of an OpenAPI document. In an OpenAPI document `#` means the whole document, so references change. */
import { isObject, pointerTo } from "../../base/json.ts";
import type { JsonSchema } from "../../base/schemas/json-schema.ts";

export interface Component {
  readonly body: JsonSchema;
  /** The schemas of `$defs` by component name: `#/$defs/node` of the component `Input` becomes `Input_node`. */
  readonly definitions: ReadonlyMap<string, JsonSchema>;
}

/**
 * Converts a JSON Schema to components. References change: `#` becomes the component `name`, and each schema in `$defs` becomes a component. In
 * tuples, `maxItems` replaces `items: false`, which some client generators do not support.
 *
 * @param schema a complete JSON Schema, whose references lead to `#` or into `$defs`
 */
export function componentOf(name: string, schema: JsonSchema): Component {
  const { $defs = {}, ...body } = schema;
  const given = new Map<string, JsonSchema>();
  const targets = new Map([["#", componentPointer(name)]]);
  for (const [key, definition] of Object.entries(isObject($defs) ? $defs : {})) {
    const component = unusedName(`${name}_${key.replace(/^_+/, "").replace(/[^A-Za-z0-9._-]/g, "_")}`, given);
    given.set(component, isObject(definition) ? definition : {});
    targets.set(`#${pointerTo(["$defs", key])}`, componentPointer(component));
  }
  const definitions = [...given].map(([component, definition]) => [component, rewritten(definition, targets)] as const);
  return { body: rewritten(body, targets), definitions: new Map(definitions) };
}

/** Keywords whose value maps names to schemas. The names are no keywords, even if a field has the name `const`. */
const schemaMaps: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas"]);
/** Keywords whose value is data and no schema. */
const valueKeywords: ReadonlySet<string> = new Set(["const", "enum", "default", "example", "examples"]);

function rewritten(schema: JsonSchema, targets: ReadonlyMap<string, string>): JsonSchema {
  return mapped(withoutFalseItems(schema), (value, keyword) => {
    if (keyword === "$ref" && typeof value === "string") return targets.get(value) ?? value;
    if (valueKeywords.has(keyword)) return value;
    if (schemaMaps.has(keyword) && isObject(value)) return mapped(value, (inner) => rewrittenValue(inner, targets));
    return rewrittenValue(value, targets);
  });
}

function withoutFalseItems(schema: JsonSchema): JsonSchema {
  const { items, ...rest } = schema;
  const { prefixItems } = rest;
  return items === false && Array.isArray(prefixItems) ? { ...rest, maxItems: prefixItems.length } : schema;
}

function rewrittenValue(value: unknown, targets: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((element) => rewrittenValue(element, targets));
  return isObject(value) ? rewritten(value, targets) : value;
}

function mapped(object: JsonSchema, change: (value: unknown, key: string) => unknown): JsonSchema {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}

/** A component name that is not used yet. Names may become equal when characters are replaced that OpenAPI forbids: the second gets a number. */
function unusedName(wanted: string, used: ReadonlyMap<string, unknown>): string {
  let name = wanted;
  for (let number = 2; used.has(name); number++) name = `${wanted}_${number}`;
  return name;
}

export function referenceTo(component: string): JsonSchema {
  return { $ref: componentPointer(component) };
}

function componentPointer(component: string): string {
  return `#/components/schemas/${component}`;
}
