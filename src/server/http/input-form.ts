/** The schema of an input that comes as a form. */
import { type JsonSchema, SchemaNode } from "../../base/json-schema.ts";

const description =
  "One input. Files are parts as they are, or texts with their URLs; the elements of a list are parts of one name; objects are JSON, or parts named `box.left`. With `0.`, `1.` and so on before all names these are several inputs.";

/** @param input as a component */
export function formSchema(input: JsonSchema, example: unknown): JsonSchema {
  const { title = "Input" } = input;
  const { fields } = SchemaNode.of(input);
  const properties = Object.fromEntries([...fields].map(([name, field]) => [name, partOf(field)]));
  const rest = fields.size > 0 ? { ...input, properties } : { type: "object" };
  // With a title of its own openapi-python-client would know it, and then sends no lists: it asks `isinstance(body, list[Input])` where it
  // has the choice.
  return { ...rest, title, description, ...(example === undefined ? {} : { examples: [example] }) };
}

/** A file is a part with its bytes. */
function partOf({ schema, items, file }: SchemaNode): JsonSchema {
  if (schema.type === "array") return { ...schema, items: partOf(items) };
  return schema.type === "string" && file !== undefined ? { ...schema, format: "binary" } : schema;
}
