/** Finds files and their paths in the JSON Schema of an input or output. */
import type { SchemaNode } from "../../../base/json-schema.ts";

/** Maximum depth of a schema. A deeper schema counts as recursive. */
const MAX_LEVELS = 8;

/** Whether a field accepts a URL or a local file: a file field, or a tensor field, which accepts bytes. */
export function isFile(node: SchemaNode): boolean {
  return node.file !== undefined || node.takesArrayBytes;
}

/** Paths of the files in an output, such as `image` or `faces.*.crop`. `*` stands for any array index. */
export function filePaths(node: SchemaNode, level = 0): readonly string[] {
  if (node.file !== undefined) return [""];
  if (level > MAX_LEVELS) return [];
  const below: (readonly [string, SchemaNode])[] = [...node.fields];
  if (node.types.has("array")) below.push(["*", node.element(0)]);
  return below.flatMap(([name, inner]) => filePaths(inner, level + 1).map((path) => (path ? `${name}.${path}` : name)));
}
