/** Turns a JSON Schema into components of an OpenAPI document, in which `#` means the whole document. */
import { isObject, pointerTo } from "../../../base/json.ts";
import type { JsonSchema } from "../../../base/json-schema.ts";

export interface Component {
  readonly body: JsonSchema;
  /** The schemas of `$defs` by component name: `Input_node` for `#/$defs/node` of `Input`. */
  readonly definitions: ReadonlyMap<string, JsonSchema>;
}

/**
 * OpenAPI 3.1 includes JSON Schema 2020-12, so only references change: `#` becomes the component, and each schema in `$defs` becomes
 * another component. Some client generators do not support `items: false`, so `maxItems` replaces it in tuples.
 *
 * @param schema a complete document: references lead to the document itself or into `$defs`
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

/** Keywords that map names to schemas. The author chooses the names, so a name may equal a keyword. */
const schemaMaps: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas"]);
/** Keywords that hold values, not schemas. */
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

/** Component names allow only letters, digits and `.-_`. A number separates keys that become equal. */
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
