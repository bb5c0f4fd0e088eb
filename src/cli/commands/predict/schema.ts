/** Finds files, arrays and their paths in the JSON Schema of an input or output. */
import type { JsonType, SchemaNode } from "../../../base/json-schema.ts";

/** Maximum depth of a schema. A deeper schema counts as recursive. */
const MAX_LEVELS = 8;

/** Whether a field accepts a URL or a local file: a file field, or a tensor field, which accepts bytes. */
export function isFile(node: SchemaNode): boolean {
  return node.file !== undefined || node.takesArrayBytes;
}

/** Whether the schema is nested lists of numbers or booleans. */
export function isNumbers(node: SchemaNode): boolean {
  return isEach(node, new Set(["array", "number", "integer", "boolean"])) && node.types.has("array");
}

export function isWhole(node: SchemaNode): boolean {
  return isEach(node, new Set(["array", "integer"]));
}

/** Whether elements at any depth have only the allowed types. */
function isEach(node: SchemaNode, allowed: ReadonlySet<JsonType>, level = 0): boolean {
  // Ignores strings, because an `ndarray` field accepts them in inputs, but outputs never have them.
  const own = [...node.types].filter((type) => type !== "string" || !node.types.has("array"));
  if (own.length === 0 || level > MAX_LEVELS || !own.every((type) => allowed.has(type))) return false;
  return !node.types.has("array") || isEach(node.element(0), allowed, level + 1);
}

/** Paths of the files in an output, such as `image` or `faces.*.crop`. */
export function filePaths(schema: SchemaNode): readonly string[] {
  return pathsOf(schema, (node) => node.file !== undefined);
}

/** Paths of the outermost schemas that match. `*` stands for any array index. */
export function pathsOf(node: SchemaNode, isWanted: (node: SchemaNode) => boolean, level = 0): readonly string[] {
  if (isWanted(node)) return [""];
  if (level > MAX_LEVELS) return [];
  const below: (readonly [string, SchemaNode])[] = [...node.fields];
  if (node.types.has("array")) below.push(["*", node.element(0)]);
  return below.flatMap(([name, inner]) =>
    pathsOf(inner, isWanted, level + 1).map((path) => (path ? `${name}.${path}` : name)),
  );
}
