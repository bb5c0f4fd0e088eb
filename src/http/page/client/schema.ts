/** Chooses the kind of form field for a schema, and its initial value. */
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { isObject, type Json, type Value } from "./value.ts";

export interface Choice {
  readonly value: Json;
  readonly label: string;
}

const numeric = ["number", "integer", "array"] as const;

export type Kind = "text" | "number" | "switch" | "choice" | "file" | "list" | "object" | "json";

/** The kind of form field for a schema. Ignores null: a nullable number gets a number field. */
export function kindOf(schema: SchemaNode): Kind {
  if (choicesOf(schema).length > 0) return "choice";
  const [only, ...others] = optionsOf(schema);
  if (only === undefined || others.length > 0) return "json";
  const { file, hasItems, items, fields } = only;
  switch ([...only.types][0]) {
    case "boolean":
      return "switch";
    case "number":
    case "integer":
      return "number";
    case "string":
      return file === undefined ? "text" : "file";
    case "array":
      // Numbers, and lists of lists, are edited as JSON.
      return hasItems && !numeric.some((type) => items.types.has(type)) ? "list" : "json";
    case "object":
      return fields.size === 0 ? "json" : "object";
    default:
      return "json";
  }
}

function optionsOf({ options }: SchemaNode): readonly SchemaNode[] {
  return options.filter(({ types }) => !(types.size === 1 && types.has("null")));
}

/** The values that a schema allows, with their names; empty if it allows others. */
export function choicesOf(schema: SchemaNode): Choice[] {
  const options = optionsOf(schema);
  if (options.some(({ values }) => values.length === 0)) return [];
  const choices = options.flatMap(({ values, title }) =>
    values.map((value) => ({ value, title: values.length === 1 ? title : undefined })),
  );
  return choices.map(({ value, title }, i) => {
    const label = schema.enumNames[i] ?? title ?? (typeof value === "string" ? value : JSON.stringify(value));
    return { value, label };
  });
}

/** The initial value of a field: the example, else the default, else a small value that the schema accepts; undefined if there is none. */
export function initialOf(schema: SchemaNode, example?: Value): Value {
  const kind = kindOf(schema);
  const value = example === undefined ? schema.default : example;
  // An example may leave out fields with a default value.
  if (kind === "object" && (isObject(example) || value === undefined)) {
    const members = [...schema.fields].flatMap(([name, field]): [string, Json][] => {
      const given = isObject(example) ? example[name] : undefined;
      const isLeftOut = isObject(example) || !schema.required.includes(name);
      const initial = given === undefined && field.default === undefined && isLeftOut ? given : initialOf(field, given);
      return initial === undefined ? [] : [[name, initial]];
    });
    return Object.fromEntries(members);
  }
  if (value !== undefined) return value;
  if (kind === "choice") return choicesOf(schema)[0]?.value;
  if (kind === "list") return Array.from({ length: schema.limits.minItems ?? 0 }, () => initialOf(schema.items) ?? "");
  if (kind === "switch") return false;
  return kind === "number" && isRange(schema) ? schema.limits.minimum : undefined;
}

/** Whether the limits of a number suit a slider. zod gives every integer the limits of exact integers, which are too far apart. */
export function isRange({ limits: { minimum, maximum } }: SchemaNode): boolean {
  return minimum !== undefined && maximum !== undefined && maximum - minimum < 1e6;
}
