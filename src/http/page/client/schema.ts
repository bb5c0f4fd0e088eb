/** Chooses the kind of form field for a schema, and its initial value. */
import { isObject, type Json } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { Value } from "./value.ts";

export interface Choice {
  readonly value: Json;
  readonly label: string;
}

export type Kind = "text" | "number" | "switch" | "choice" | "file" | "files" | "object" | "json";

/** The kind of form field for a schema. Ignores null: a nullable number gets a number field. */
export function kindOf(schema: SchemaNode): Kind {
  if (choicesOf(schema).length > 0) return "choice";
  const [only, ...others] = optionsOf(schema);
  if (only === undefined || others.length > 0) return "json";
  switch ([...only.types][0]) {
    case "boolean":
      return "switch";
    case "number":
    case "integer":
      return "number";
    case "string":
      return only.file === undefined ? "text" : "file";
    case "array":
      return only.hasItems && kindOf(only.items) === "file" ? "files" : "json";
    case "object":
      return only.fields.size === 0 ? "json" : "object";
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
  return kind === "switch" ? false : undefined;
}
