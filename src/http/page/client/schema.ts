/** Chooses the kind of form field for a schema, and its initial value. */
import type { FileMark, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { isObject, type Json, type JsonObject, type Value } from "./value.ts";

export interface Choice {
  readonly value: Json;
  readonly label: string;
}

export type Kind =
  | { readonly name: "text" | "switch" | "number" | "object" | "json" | "array" }
  | { readonly name: "file"; readonly file: FileMark }
  | { readonly name: "choice"; readonly choices: readonly Choice[] }
  | { readonly name: "list"; readonly items: SchemaNode };

/** The kind of form field for a schema. Ignores null: a nullable number gets a number field. */
export function kindOf(schema: SchemaNode): Kind {
  const options = optionsOf(schema);
  const choices = choicesOf(schema);
  if (choices.length > 0) return { name: "choice", choices };
  if (isArray(schema)) return { name: "array" };
  const [only, ...others] = options;
  if (only === undefined || others.length > 0) return { name: "json" };
  switch ([...only.types][0]) {
    case "boolean":
      return { name: "switch" };
    case "number":
    case "integer":
      return { name: "number" };
    case "string":
      return only.file === undefined ? { name: "text" } : { name: "file", file: only.file };
    case "array":
      return only.hasItems ? { name: "list", items: only.items } : { name: "json" };
    case "object":
      return only.fields.size === 0 ? { name: "json" } : { name: "object" };
    default:
      return { name: "json" };
  }
}

function optionsOf({ options }: SchemaNode): readonly SchemaNode[] {
  return options.filter(({ types }) => !(types.size === 1 && types.has("null")));
}

/** Whether the schema accepts nested lists of numbers, and nothing else except a data URI with the bytes of the numbers. */
function isArray(schema: SchemaNode): boolean {
  const isNumeric = ({ types, hasItems, items }: SchemaNode): boolean =>
    types.has("array") && hasItems && (items.types.has("number") || items.types.has("integer") || isNumeric(items));
  const options = optionsOf(schema);
  return options.some(isNumeric) && options.every((each) => isNumeric(each) || each.takesArrayBytes);
}

function choicesOf(schema: SchemaNode): Choice[] {
  const options = optionsOf(schema);
  const { enumNames } = schema;
  if (options.some(({ values }) => values.length === 0)) return [];
  const choices = options.flatMap(({ values, title }) =>
    values.map((value) => ({ value, label: (values.length === 1 ? title : undefined) ?? textOf(value) })),
  );
  return choices.map(({ value, label }, i) => ({ value, label: enumNames[i] ?? label }));
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The initial value of a field: the example, else the default, else a small value that the schema accepts; undefined if there is none. */
export function initialOf(schema: SchemaNode, example?: Value): Value {
  const kind = kindOf(schema);
  // An example may leave out fields with a default value. membersOf() adds them.
  if (isObject(example) && kind.name === "object") return membersOf(schema, example);
  if (example !== undefined) return example;
  if (schema.default !== undefined) return schema.default;
  if (kind.name === "choice") return kind.choices[0]?.value;
  if (kind.name === "object") return membersOf(schema);
  if (kind.name === "list") {
    return Array.from({ length: schema.limits.minItems ?? 0 }, () => initialOf(kind.items) ?? "");
  }
  if (kind.name === "switch") return false;
  return kind.name === "number" && isRange(schema) ? schema.limits.minimum : undefined;
}

/** The members of the example, members with a default, and without an example all required members, in the order of the schema. */
function membersOf({ fields, required }: SchemaNode, example?: JsonObject): JsonObject {
  const members = [...fields].map(([name, schema]): [string, Value] => {
    const isNeeded = (example === undefined && required.includes(name)) || schema.default !== undefined;
    const given = example?.[name];
    return [name, given !== undefined || isNeeded ? initialOf(schema, given) : undefined];
  });
  return Object.fromEntries(members.filter((member): member is [string, Json] => member[1] !== undefined));
}

/** Whether the limits of a number suit a slider. zod gives every integer the limits of exact integers, which are too far apart. */
export function isRange({ limits: { minimum, maximum } }: SchemaNode): boolean {
  return minimum !== undefined && maximum !== undefined && maximum - minimum < 1e6;
}
