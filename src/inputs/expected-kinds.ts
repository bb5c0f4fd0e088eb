/** Which kinds of JSON value a schema takes in which places: what can be checked before a text is made into values. */
import { isObject, targetOf } from "../json.ts";
import { DATA_URL_PATTERN } from "../model/data-url.ts";
import * as z from "../model/z.ts";

export type Kind = "string" | "number" | "boolean" | "null" | "array" | "object";

export interface Expected {
  readonly kinds: ReadonlySet<Kind>;
  /** Every string that fits is a data URI, so another text is JSON of another kind. */
  readonly hasOnlyDataUrls?: boolean;
  /** Of the elements of a list, or of those of a tuple that come behind its `first`. */
  readonly items?: Expected | undefined;
  /** Of the first elements of a tuple, each by its place. */
  readonly first?: readonly Expected[] | undefined;
  /** A list with fewer elements than these may have other faults, or one of another length than it has; Infinity where that is not known. */
  readonly enough?: number;
  /** By name. */
  readonly fields?: ReadonlyMap<string, Expected> | undefined;
  /** Of fields that have no name here; undefined where there may be none. */
  readonly others?: Expected | undefined;
}

/** What takes everything, or is not understood here. */
export const anything: Expected = {
  kinds: new Set(["string", "number", "boolean", "null", "array", "object"]),
  get items() {
    return anything;
  },
  get others() {
    return anything;
  },
};

/** Reads the JSON Schema of what a schema takes; what that says in other words than these is taken for anything. */
export function expectedKinds(schema: z.ZodType): Expected {
  try {
    const root: unknown = z.toJSONSchema(schema, {
      io: "input",
      unrepresentable: "any",
      override: ({ zodSchema, jsonSchema }) => {
        if (takesOthers(zodSchema)) for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key);
      },
    });
    return new Reader(root).read(root);
  } catch {
    // Without a JSON side, as in tests; models are refused for that when they are declared.
    return anything;
  }
}

/** Whether a schema makes something of other kinds too: by coercion, by code that comes first, or by a value for what is wrong. */
function takesOthers({ _zod: { def } }: z.core.$ZodType): boolean {
  const isCoerced = "coerce" in def && def.coerce === true;
  const isPrepared = "in" in def && def.in instanceof z.core.$ZodTransform;
  return isCoerced || isPrepared || def.type === "catch";
}

class Reader {
  readonly #root: unknown;
  /** A schema may refer to itself. */
  readonly #known = new Map<unknown, Expected>();

  constructor(root: unknown) {
    this.#root = root;
  }

  read(schema: unknown): Expected {
    if (!isObject(schema)) return anything;
    const known = this.#known.get(schema);
    if (known !== undefined) return known;
    const made = new ReadLater(() => this.#read(schema));
    this.#known.set(schema, made);
    return made;
  }

  #read(schema: Readonly<Record<string, unknown>>): Expected {
    const { $ref, anyOf, oneOf, allOf, type, pattern, enum: values } = schema;
    if (typeof $ref === "string") return this.read(targetOf($ref, this.#root));
    const options = anyOf ?? oneOf;
    if (allOf !== undefined) return anything;
    if (Array.isArray(options)) return eitherOf(options.map((option) => this.read(option)));
    if (Array.isArray(type)) return eitherOf(type.map((each) => this.#read({ ...schema, type: each })));
    if (type === "array") return { kinds: new Set(["array"]), ...this.#items(schema), enough: enoughOf(schema) };
    if (type === "object") return { kinds: new Set(["object"]), ...this.#fields(schema) };
    if (type === "integer") return { kinds: new Set(["number"]) };
    if (type === "string") return { kinds: new Set([type]), hasOnlyDataUrls: pattern === DATA_URL_PATTERN };
    if (type === "number" || type === "boolean" || type === "null") return { kinds: new Set([type]) };
    const listed = Array.isArray(values) ? values.map(kindOf) : [];
    return listed.length > 0 && listed.every((kind) => kind !== undefined) ? { kinds: new Set(listed) } : anything;
  }

  #items({ items, prefixItems }: Readonly<Record<string, unknown>>): Pick<Expected, "items" | "first"> {
    const first = Array.isArray(prefixItems) ? prefixItems.map((element) => this.read(element)) : undefined;
    return { items: this.read(items), first };
  }

  #fields(schema: Readonly<Record<string, unknown>>): Pick<Expected, "fields" | "others"> {
    const { properties, additionalProperties, patternProperties } = schema;
    if (patternProperties !== undefined) return { others: anything };
    const fields = isObject(properties) ? Object.entries(properties) : [];
    return {
      fields: new Map(fields.map(([name, field]) => [name, this.read(field)])),
      others: additionalProperties === false ? undefined : this.read(additionalProperties),
    };
  }
}

/** What is read when it is asked for: of a schema within itself only then is there something to say. */
class ReadLater implements Expected {
  readonly #read: () => Expected;
  #made: Expected | undefined;

  constructor(read: () => Expected) {
    this.#read = read;
  }

  get kinds() {
    return this.#expected.kinds;
  }

  get hasOnlyDataUrls() {
    return this.#expected.hasOnlyDataUrls ?? false;
  }

  get items() {
    return this.#expected.items;
  }

  get first() {
    return this.#expected.first;
  }

  get enough() {
    return this.#expected.enough ?? 0;
  }

  get fields() {
    return this.#expected.fields;
  }

  get others() {
    return this.#expected.others;
  }

  get #expected(): Expected {
    if (this.#made === undefined) {
      // For one that is itself and nothing more.
      this.#made = anything;
      this.#made = this.#read();
    }
    return this.#made;
  }
}

/** Takes what one of them takes; looks into lists and objects where a single option has them. */
function eitherOf(options: readonly Expected[]): Expected {
  const lists = options.filter(({ kinds }) => kinds.has("array"));
  const objects = options.filter(({ kinds }) => kinds.has("object"));
  return {
    kinds: new Set(options.flatMap(({ kinds }) => [...kinds])),
    hasOnlyDataUrls: options.every(({ kinds, hasOnlyDataUrls = false }) => hasOnlyDataUrls || !kinds.has("string")),
    ...(lists.length === 1 ? { items: lists[0]?.items, first: lists[0]?.first } : { items: anything }),
    enough: Number.POSITIVE_INFINITY,
    ...(objects.length === 1 ? { fields: objects[0]?.fields, others: objects[0]?.others } : { others: anything }),
  };
}

/** Of a value without others within. */
function kindOf(value: unknown): Kind | undefined {
  if (value === null) return "null";
  const type = typeof value;
  return type === "string" || type === "number" || type === "boolean" ? type : undefined;
}

/** One more than a list may have shows that it is too long. */
function enoughOf({ minItems, maxItems }: Readonly<Record<string, unknown>>): number {
  return Math.max(typeof minItems === "number" ? minItems : 0, typeof maxItems === "number" ? maxItems + 1 : 0);
}
