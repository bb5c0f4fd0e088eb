/** What a JSON Schema says of the fields of an input or output, as far as a command line needs it; the model's own schema checks the rest. */
import type { JsonSchema } from "../../model/wire-schema.ts";

export type Kind = "string" | "number" | "integer" | "boolean" | "null" | "array" | "object";

const kinds: readonly Kind[] = ["string", "number", "integer", "boolean", "null", "array", "object"];

/** One schema inside a whole one, which its references point into. */
export class SchemaNode {
  readonly #alternatives: readonly JsonSchema[];
  readonly #root: JsonSchema;

  constructor(schema: JsonSchema, root: JsonSchema = schema) {
    this.#root = root;
    this.#alternatives = alternativesOf(schema, root, new Set());
  }

  /** The types that it takes; empty for all types. */
  get kinds(): ReadonlySet<Kind> {
    const all = this.#alternatives.map(kindsOf);
    return new Set(all.some((some) => some.length === 0) ? [] : all.flat());
  }

  /** The values that it takes, where they are listed. */
  get values(): readonly unknown[] {
    return this.#alternatives.flatMap((one) => ("const" in one ? [one.const] : listOf(one.enum)));
  }

  /** Whether it takes texts that are not listed. */
  get takesAnyText(): boolean {
    return this.#alternatives.some((one) => kindsOf(one).includes("string") && !("const" in one || "enum" in one));
  }

  /** Whether it may be a URL, as in `image()`, `file()` and `ndarray()` fields. */
  get isFile(): boolean {
    return this.#alternatives.some(({ format }) => format === "uri");
  }

  /** Whether it is an `ndarray()` field, which takes the bytes of its elements as a data URI, and no other URL. */
  get isArrayFile(): boolean {
    return this.#alternatives.some(({ format, pattern }) => format === "uri" && pattern === "^data:");
  }

  /** Its declared fields, by name. */
  get fields(): ReadonlyMap<string, SchemaNode> {
    const entries = this.#alternatives.flatMap(({ properties }) =>
      Object.entries(isSchema(properties) ? properties : {}),
    );
    return new Map(entries.map(([name, schema]) => [name, this.#node(schema)]));
  }

  /** Fields that no input can do without. */
  get required(): readonly string[] {
    const [first = [], ...others] = this.#alternatives.map((one) => listOf(one.required));
    return first.filter(
      (name): name is string => typeof name === "string" && others.every((list) => list.includes(name)),
    );
  }

  /** What a field holds, declared or not; undefined when there can't be such a field. */
  field(name: string): SchemaNode | undefined {
    const declared = this.fields.get(name);
    if (declared !== undefined) return declared;
    const open = this.#alternatives.find(({ additionalProperties }) => additionalProperties !== false);
    return open && this.#node(open.additionalProperties);
  }

  /** What an array holds at a place. */
  element(index: number): SchemaNode {
    const array = this.#alternatives.find((one) => kindsOf(one).includes("array")) ?? {};
    return this.#node(listOf(array.prefixItems)[index] ?? array.items);
  }

  /** Whether it is a number or true or false, or nested lists of them. */
  get isNumbers(): boolean {
    return this.#isEach(new Set(["array", "number", "integer", "boolean"])) && this.kinds.has("array");
  }

  get isWhole(): boolean {
    return this.#isEach(new Set(["array", "integer"]));
  }

  /** Whether its elements at any depth are of these types alone. */
  #isEach(allowed: ReadonlySet<Kind>, depth = 0): boolean {
    // An array of tensors' elements can also be its bytes as a text, which no output is.
    const own = [...this.kinds].filter((kind) => kind !== "string" || !this.kinds.has("array"));
    if (own.length === 0 || depth > 8 || !own.every((kind) => allowed.has(kind))) return false;
    return !this.kinds.has("array") || this.element(0).#isEach(allowed, depth + 1);
  }

  /** The places of files in an output that it describes: `image`, `faces.*.crop`. */
  filePaths(): readonly string[] {
    return this.paths((node) => node.isFile && !node.kinds.has("array"));
  }

  /** The outermost places of what is wanted. */
  paths(isWanted: (node: SchemaNode) => boolean, depth = 0): readonly string[] {
    if (isWanted(this)) return [""];
    // A schema may refer to itself.
    if (depth > 8) return [];
    const below: (readonly [string, SchemaNode])[] = [...this.fields];
    if (this.kinds.has("array")) below.push(["*", this.element(0)]);
    return below.flatMap(([name, node]) =>
      node.paths(isWanted, depth + 1).map((path) => (path ? `${name}.${path}` : name)),
    );
  }

  #node(schema: unknown): SchemaNode {
    return new SchemaNode(isSchema(schema) ? schema : {}, this.#root);
  }
}

/** The schema itself, or the ones that it is put together from. */
function alternativesOf(schema: JsonSchema, root: JsonSchema, seen: ReadonlySet<unknown>): readonly JsonSchema[] {
  const parts = [...listOf(schema.anyOf), ...listOf(schema.oneOf), ...listOf(schema.allOf), resolve(schema.$ref, root)];
  const schemas = parts.filter(isSchema).filter((part) => !seen.has(part));
  if (schemas.length === 0) return [schema];
  return schemas.flatMap((part) => alternativesOf(part, root, new Set([...seen, part])));
}

/** What `#/$defs/name` points to. */
function resolve(reference: unknown, root: JsonSchema): unknown {
  if (typeof reference !== "string" || !reference.startsWith("#")) return undefined;
  const parts = reference.split("/").slice(1);
  return parts.reduce<unknown>(
    (value, part) => (isSchema(value) ? value[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined),
    root,
  );
}

function kindsOf(schema: JsonSchema): readonly Kind[] {
  const named = Array.isArray(schema.type) ? schema.type : [schema.type];
  const known = kinds.filter((kind) => named.includes(kind));
  if (known.length > 0) return known;
  const values = "const" in schema ? [schema.const] : listOf(schema.enum);
  return kinds.filter((kind) => values.some((value) => kind === (value === null ? "null" : typeof value)));
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
