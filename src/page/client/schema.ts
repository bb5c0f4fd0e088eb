/** JSON Schema, as the server describes inputs and outputs with it, and which kind of field each asks for. */
import { isObject, type Json, type JsonObject, type Value } from "./value.ts";

export interface JsonSchema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;
  readonly const?: Json;
  readonly enum?: readonly Json[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly contentMediaType?: string;
  /** What an author says to this page with `.meta()`: not shown, and what choices are called. */
  readonly hidden?: boolean;
  readonly enumNames?: readonly string[];
}

export interface Choice {
  readonly value: Json;
  readonly label: string;
}

export type Kind =
  | { readonly name: "text" | "switch" | "number" | "object" | "json" | "array" }
  | { readonly name: "file"; readonly accept: string }
  | { readonly name: "choice"; readonly choices: readonly Choice[] }
  | { readonly name: "list"; readonly items: JsonSchema };

/** What a reference leads to; of what may be null, what it is otherwise. */
export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  if (schema.$ref !== undefined) {
    const definition = root.$defs?.[schema.$ref.replace("#/$defs/", "")] ?? (schema.$ref === "#" ? root : {});
    const { $ref: _, ...beside } = schema;
    return resolved({ ...definition, ...beside }, root);
  }
  if (isSeveral(schema.type)) {
    const [only, ...more] = schema.type.filter((type) => type !== "null");
    return only === undefined || more.length > 0 ? schema : { ...schema, type: only };
  }
  const others = schema.anyOf?.filter(({ type }) => type !== "null") ?? [];
  const [only] = others;
  if (only === undefined || others.length > 1 || others.length === schema.anyOf?.length) return schema;
  const { anyOf: _, ...beside } = schema;
  return resolved({ ...only, ...beside }, root);
}

function isSeveral(type: JsonSchema["type"]): type is readonly string[] {
  return Array.isArray(type);
}

/** @param schema a resolved one */
export function kindOf(schema: JsonSchema): Kind {
  const choices = choicesOf(schema);
  if (choices.length > 0) return { name: "choice", choices };
  if (isArray(schema)) return { name: "array" };
  switch (schema.type) {
    case "boolean":
      return { name: "switch" };
    case "number":
    case "integer":
      return { name: "number" };
    case "string":
      return schema.format === "uri" ? { name: "file", accept: acceptOf(schema) } : { name: "text" };
    case "array":
      return schema.items === undefined ? { name: "json" } : { name: "list", items: schema.items };
    case "object":
      return schema.properties === undefined ? { name: "json" } : { name: "object" };
    default:
      return { name: "json" };
  }
}

/** Lists of numbers at any depth, which may be given as bytes too. */
function isArray(schema: JsonSchema): boolean {
  const { anyOf = [schema] } = schema;
  const isNumeric = ({ type, items }: JsonSchema): boolean =>
    type === "array" &&
    items !== undefined &&
    (items.type === "number" || items.type === "integer" || isNumeric(items));
  return anyOf.some(isNumeric) && anyOf.every((each) => isNumeric(each) || takesBytes(each));
}

/** Whether the bytes of an array may be given as a data URI. */
export function takesBytes(schema: JsonSchema): boolean {
  return schema.pattern === "^data:" || schema.anyOf?.some(takesBytes) === true;
}

function choicesOf({ enum: values, enumNames, anyOf, oneOf }: JsonSchema): Choice[] {
  if (values !== undefined) return values.map((value, i) => ({ value, label: enumNames?.[i] ?? textOf(value) }));
  const constants = (anyOf ?? oneOf ?? []).flatMap((each) =>
    each.const === undefined ? [] : [{ ...each, value: each.const }],
  );
  if (constants.length < (anyOf ?? oneOf ?? []).length) return [];
  return constants.map(({ value, title }, i) => ({ value, label: enumNames?.[i] ?? title ?? textOf(value) }));
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function acceptOf({ contentMediaType, description = "" }: JsonSchema): string {
  const [, kinds = ""] = /^URL of a file \(([^)]*)\)/.exec(description) ?? [];
  return contentMediaType ?? kinds;
}

/** What a field begins with: the example, its default, or the least that its schema takes. */
export function initialOf(schema: JsonSchema, root: JsonSchema, example?: Value): Value {
  const plain = resolved(schema, root);
  // An example leaves out what has a default.
  if (isObject(example) && kindOf(plain).name === "object") return membersOf(plain, root, example);
  if (example !== undefined) return example;
  if (plain.default !== undefined) return plain.default;
  const kind = kindOf(plain);
  if (kind.name === "choice") return kind.choices[0]?.value;
  if (kind.name === "object") return membersOf(plain, root);
  if (kind.name === "list") {
    return Array.from({ length: plain.minItems ?? 0 }, () => initialOf(kind.items, root) ?? "");
  }
  if (kind.name === "switch") return false;
  return kind.name === "number" && isRange(plain) ? plain.minimum : undefined;
}

/** Those that are required, have a default or are in the example, in the order of the schema. */
function membersOf({ properties = {}, required = [] }: JsonSchema, root: JsonSchema, example?: JsonObject): JsonObject {
  const members = Object.entries(properties).map(([name, schema]): [string, Value] => {
    const isNeeded = (example === undefined && required.includes(name)) || resolved(schema, root).default !== undefined;
    const given = example?.[name];
    return [name, given !== undefined || isNeeded ? initialOf(schema, root, given) : undefined];
  });
  return Object.fromEntries(members.filter((member): member is [string, Json] => member[1] !== undefined));
}

/** The schema of a member of an output, for its title. */
export function memberOf(schema: JsonSchema | undefined, name: string, root: JsonSchema): JsonSchema | undefined {
  const member = schema && resolved(schema, root).properties?.[name];
  return member && resolved(member, root);
}

/** Whole numbers without limits are described with those of exact ones. */
export function isRange({ minimum, maximum }: JsonSchema): boolean {
  return minimum !== undefined && maximum !== undefined && maximum - minimum < 1e6;
}
