/** Chooses the kind of form field for a schema, and its initial value. */
import type { FileMark, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { isObject, type Json, type JsonObject, type Value } from "./value.ts";

export interface Choice {
  readonly value: Json;
  readonly label: string;
}

export type Kind =
  | { readonly name: "text" | "switch" | "number" | "object" | "json" }
  | { readonly name: "file"; readonly file: FileMark }
  | { readonly name: "choice"; readonly choices: readonly Choice[] }
  | { readonly name: "list"; readonly items: SchemaNode };

/** The kind of form field for a schema. Ignores null: a nullable number gets a number field. */
export function kindOf(schema: SchemaNode): Kind {
  const options = schema.options.filter(({ types }) => !(types.size === 1 && types.has("null")));
  const choices = choicesOf(options, schema.enumNames);
  if (choices.length > 0) return { name: "choice", choices };
  const [only, ...others] = options;
  if (only === undefined || others.length > 0) return { name: "json" };
  const { file, hasItems, items, fields } = only;
  switch ([...only.types][0]) {
    case "boolean":
      return { name: "switch" };
    case "number":
    case "integer":
      return { name: "number" };
    case "string":
      return file === undefined ? { name: "text" } : { name: "file", file };
    case "array":
      // Numbers, and lists of lists, are edited as JSON.
      return hasItems && !isNumeric(items) ? { name: "list", items } : { name: "json" };
    case "object":
      return { name: fields.size === 0 ? "json" : "object" };
    default:
      return { name: "json" };
  }
}

function isNumeric({ types }: SchemaNode): boolean {
  return types.has("number") || types.has("integer") || types.has("array");
}

function choicesOf(options: readonly SchemaNode[], names: readonly string[]): Choice[] {
  if (options.some(({ values }) => values.length === 0)) return [];
  const choices = options.flatMap(({ values, title }) => values.map((value) => ({ value, values, title })));
  return choices.map(({ value, values, title }, i) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return { value, label: names[i] ?? (values.length === 1 ? title : undefined) ?? text };
  });
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
