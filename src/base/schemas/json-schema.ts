/** Typed access to a JSON Schema (2020-12), shared by the server, the commands and the page in the browser. */
import { isJson, isObject, type Json, targetOf } from "../json.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;
export type JsonType = "string" | "number" | "integer" | "boolean" | "null" | "array" | "object";

/**
 * JSON Schema keyword for strings that are a file's URL (`image()`, `audio()`, `file()`). Its value is a `FileMark`.
 */
export const FILE_KEYWORD = "x-sconce-file";
/** JSON Schema keyword for strings that are a tensor as data URI (`ndarray()`). Its value has dtype and shape. */
export const ARRAY_KEYWORD = "x-sconce-array";

export interface FileMark {
  /** Accepted types such as `audio/wav` or `audio/*`; empty accepts all types. */
  readonly mediaTypes: readonly string[];
}

const types: readonly JsonType[] = ["string", "number", "integer", "boolean", "null", "array", "object"];
const limitKeywords = ["minItems", "maxItems"] as const;
type LimitKeyword = (typeof limitKeywords)[number];
/** Number of nested references after which a schema counts as circular. */
const MAX_LEVELS = 16;

/**
 * One schema of a document. A keyword such as `title` or `default` that the schema lacks is read from the target of its
 * `$ref`, `anyOf`, `oneOf` or `allOf`, if exactly one target is not a null schema.
 */
export class SchemaNode {
  readonly schema: JsonSchema;
  readonly #root: JsonSchema;
  /** One node for each schema of the document, so that a recursive schema has a finite tree. */
  readonly #known: WeakMap<JsonSchema, SchemaNode>;
  #parts: readonly SchemaNode[] | undefined;
  #options: readonly SchemaNode[] | undefined;
  #fields: ReadonlyMap<string, SchemaNode> | undefined;

  private constructor(schema: JsonSchema, root: JsonSchema, known: WeakMap<JsonSchema, SchemaNode>) {
    this.schema = schema;
    this.#root = root;
    this.#known = known;
    known.set(schema, this);
  }

  /** Wraps a whole JSON Schema. @param document contains the targets of all its references */
  static of(document: JsonSchema): SchemaNode {
    return new SchemaNode(document, document, new WeakMap());
  }

  /** The schemas that `$ref`, `anyOf`, `allOf` or similar name; empty for a plain schema. */
  get parts(): readonly SchemaNode[] {
    this.#parts ??= this.#findParts();
    return this.#parts;
  }

  /**
   * The alternatives that the schema allows, or the parts of its `allOf`, with references resolved. Each declares at
   * most one type.
   */
  get options(): readonly SchemaNode[] {
    this.#options ??= this.#findOptions(new Set());
    return this.#options;
  }

  /** The accepted JSON types; empty accepts all types. */
  get types(): ReadonlySet<JsonType> {
    const all = this.options.map((option) => option.#ownTypes());
    return new Set(all.some((some) => some.length === 0) ? [] : all.flat());
  }

  /** Whether a value must match several schemas at once (`allOf`). */
  get isCombined(): boolean {
    return this.schema.allOf !== undefined;
  }

  /** The allowed values, from `const` and `enum`; empty if neither is used. */
  get values(): readonly Json[] {
    return this.options
      .flatMap(({ schema }) => ("const" in schema ? [schema.const] : listOf(schema.enum)))
      .filter(isJson);
  }

  /** Whether the schema accepts strings outside `values`. */
  get takesAnyText(): boolean {
    return this.options.some((option) => option.types.has("string") && option.values.length === 0);
  }

  /** The accepted file types; undefined if the schema accepts no file. */
  get file(): FileMark | undefined {
    const mark = this.options.map(({ schema }) => schema[FILE_KEYWORD]).find(isObject);
    return mark && { mediaTypes: listOf(mark.mediaTypes).filter(isText) };
  }

  /** Whether the schema accepts a data URI with the elements of a tensor. */
  get takesArrayBytes(): boolean {
    return this.options.some(({ schema }) => isObject(schema[ARRAY_KEYWORD]));
  }

  /** The declared properties of objects, by name. */
  get fields(): ReadonlyMap<string, SchemaNode> {
    this.#fields ??= new Map(
      this.options.flatMap(({ schema: { properties } }) =>
        Object.entries(isObject(properties) ? properties : {}).map(
          ([name, field]) => [name, this.#node(field)] as const,
        ),
      ),
    );
    return this.#fields;
  }

  /** Names of the fields that every accepted object must have. */
  get required(): readonly string[] {
    const [first = [], ...others] = this.options.map(({ schema }) => listOf(schema.required));
    const all = this.isCombined ? [first, ...others].flat() : first;
    return all.filter(isText).filter((name) => this.isCombined || others.every((list) => list.includes(name)));
  }

  /** The schema of a field, declared or additional; undefined if the field is not allowed. */
  field(name: string): SchemaNode | undefined {
    return this.fields.get(name) ?? this.options.find((option) => option.others !== undefined)?.others;
  }

  /** The schema of undeclared fields (`additionalProperties`); undefined if they are not allowed. */
  get others(): SchemaNode | undefined {
    const { additionalProperties } = this.schema;
    return additionalProperties === false ? undefined : this.#node(additionalProperties);
  }

  get hasPatterns(): boolean {
    return this.schema.patternProperties !== undefined;
  }

  /** The schema of list elements. In a tuple, the elements after `first`. */
  get items(): SchemaNode {
    const list = this.options.find((option) => option.#ownTypes().includes("array"));
    return this.#node(list?.schema.items);
  }

  get hasItems(): boolean {
    return this.options.some(({ schema }) => isObject(schema.items));
  }

  /** The schemas of a tuple's elements; undefined for other schemas. */
  get first(): readonly SchemaNode[] | undefined {
    const tuple = this.options.map(({ schema }) => schema.prefixItems).find(Array.isArray);
    return tuple?.map((element: unknown) => this.#node(element));
  }

  /** The schema of the list element at an index, in a tuple or a list. */
  element(index: number): SchemaNode {
    return this.first?.[index] ?? this.items;
  }

  get title(): string | undefined {
    return this.#text("title");
  }

  get description(): string | undefined {
    return this.#text("description");
  }

  get format(): string | undefined {
    return this.#text("format");
  }

  get default(): Json | undefined {
    const value = this.#keyword("default");
    return isJson(value) ? value : undefined;
  }

  /** Whether `.meta({ hidden: true })` hides the field from the web page. */
  get isHidden(): boolean {
    return this.#keyword("hidden") === true;
  }

  /** Display names of the `enum` values, from `.meta({ enumNames })`. */
  get enumNames(): readonly string[] {
    return listOf(this.#keyword("enumNames")).filter(isText);
  }

  /** Limits of the lengths of lists. */
  get limits(): Readonly<Partial<Record<LimitKeyword, number>>> {
    const found = limitKeywords.map((name) => [name, this.#keyword(name)] as const);
    return Object.fromEntries(found.flatMap(([name, value]) => (typeof value === "number" ? [[name, value]] : [])));
  }

  #findParts(): readonly SchemaNode[] {
    const { $ref, anyOf, oneOf, allOf } = this.schema;
    const target = typeof $ref === "string" ? targetOf($ref, this.#root) : undefined;
    return [...listOf(anyOf), ...listOf(oneOf), ...listOf(allOf), target]
      .filter(isObject)
      .map((part) => this.#node(part));
  }

  #findOptions(seen: ReadonlySet<SchemaNode>): readonly SchemaNode[] {
    const inside = new Set([...seen, this]);
    const parts = this.parts.filter((part) => !inside.has(part));
    if (parts.length > 0) return parts.flatMap((part) => part.#findOptions(inside));
    const { type } = this.schema;
    if (!Array.isArray(type)) return [this];
    return type.map((each: unknown) => this.#node({ ...this.schema, type: each }));
  }

  #ownTypes(): readonly JsonType[] {
    const { schema } = this;
    const declared = types.filter((type) => type === schema.type);
    if (declared.length > 0) return declared;
    const values = "const" in schema ? [schema.const] : listOf(schema.enum);
    return types.filter((type) => values.some((value) => type === typeOf(value)));
  }

  #keyword(name: string, level = 0): unknown {
    if (name in this.schema || level > MAX_LEVELS) return this.schema[name];
    const [only, ...others] = this.parts.filter(({ schema }) => schema.type !== "null");
    return only === undefined || others.length > 0 ? undefined : only.#keyword(name, level + 1);
  }

  #text(keyword: string): string | undefined {
    const value = this.#keyword(keyword);
    return isText(value) ? value : undefined;
  }

  #node(schema: unknown): SchemaNode {
    const plain = isObject(schema) ? schema : {};
    return this.#known.get(plain) ?? new SchemaNode(plain, this.#root, this.#known);
  }
}

function typeOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
