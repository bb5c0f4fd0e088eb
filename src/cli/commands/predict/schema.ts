/** Finds file fields in the JSON Schema of an input. */
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";

/** Whether a field accepts a URL or a local file: a file field, or a tensor field, which accepts bytes. */
export function isFile(node: SchemaNode): boolean {
  return node.file !== undefined || node.takesArrayBytes;
}
