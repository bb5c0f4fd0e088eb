/** The schema of an input that comes as a form. */
import { isObject } from "../json.ts";
import type { JsonSchema } from "../model/wire-schema.ts";

const description =
  "One input. Files are parts as they are, or texts with their URLs; the elements of a list are parts of one name; objects are JSON, or parts named `box.left`. With `0.`, `1.` and so on before all names these are several inputs.";

/** @param input as a component */
export function formSchema(input: JsonSchema, example: unknown): JsonSchema {
  const { title = "Input", properties } = input;
  const rest = isObject(properties)
    ? { ...input, properties: Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, part(of)])) }
    : { type: "object" };
  // With a title of its own openapi-python-client would know it, and then sends no lists: it asks `isinstance(body, list[Input])` where it
  // has the choice.
  return { ...rest, title, description, ...(example === undefined ? {} : { examples: [example] }) };
}

function part(field: unknown): unknown {
  if (!isObject(field)) return field;
  const { type, format, items } = field;
  if (type === "array") return { ...field, items: part(items) };
  return type === "string" && format === "uri" ? { ...field, format: "binary" } : field;
}
