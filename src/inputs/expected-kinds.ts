/** Which kinds of JSON value a schema takes in which places: what can be checked before a text is made into values. */
import { isObject, targetOf } from "../json.ts";
import { DATA_URL_PATTERN } from "../model/data-url.ts";
import * as z from "../model/z.ts";

export type Kind = "string" | "number" | "boolean" | "null" | "array" | "object";

export interface Expected {
  readonly kinds: ReadonlySet<Kind>;
  /** Every string that fits is a data URI, so another text is JSON of another kind. */
  readonly hasOnlyDataUrls?: boolean;
  /** Of the elements of a list. */
  readonly items?: Expected | undefined;
  /** A list with fewer elements than these may have other faults, or one of another length than it has; Infinity where that is not known. */
  readonly enough?: number;
  /** By name. */
  readonly fields?: ReadonlyMap<string, Expected> | undefined;
  /** Of fields that have no name here; undefined where there may be none. */
  readonly others?: Expected | undefined;
}

interface Mutable {
  kinds: ReadonlySet<Kind>;
  hasOnlyDataUrls?: boolean;
  items?: Expected | undefined;
  enough?: number;
  fields?: ReadonlyMap<string, Expected> | undefined;
  others?: Expected | undefined;
}

const open: Mutable = { kinds: new Set(["string", "number", "boolean", "null", "array", "object"]) };
open.items = open;
open.others = open;
/** What takes everything, or is not understood here. */
export const anything: Expected = open;

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
  readonly #known = new Map<unknown, Mutable>();

  constructor(root: unknown) {
    this.#root = root;
  }

  read(schema: unknown): Expected {
    if (!isObject(schema)) return anything;
    const known = this.#known.get(schema);
    if (known !== undefined) return known;
    const made: Mutable = { ...anything };
    this.#known.set(schema, made);
    Object.assign(made, this.#read(schema));
    return made;
  }

  #read(schema: Readonly<Record<string, unknown>>): Expected {
    const { $ref, anyOf, oneOf, allOf, type, pattern } = schema;
    if (typeof $ref === "string") return this.read(targetOf($ref, this.#root));
    const options = anyOf ?? oneOf;
    if (allOf !== undefined) return anything;
    if (Array.isArray(options)) return eitherOf(options.map((option) => this.read(option)));
    if (type === "array") return { kinds: new Set(["array"]), items: this.#items(schema), enough: enoughOf(schema) };
    if (type === "object") return { kinds: new Set(["object"]), ...this.#fields(schema) };
    if (type === "integer") return { kinds: new Set(["number"]) };
    if (type === "string") return { kinds: new Set([type]), hasOnlyDataUrls: pattern === DATA_URL_PATTERN };
    if (type === "number" || type === "boolean" || type === "null") return { kinds: new Set([type]) };
    return anything;
  }

  #items({ items, prefixItems }: Readonly<Record<string, unknown>>): Expected {
    return prefixItems === undefined ? this.read(items) : anything;
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

/** Takes what one of them takes; looks into lists and objects where a single option has them. */
function eitherOf(options: readonly Expected[]): Expected {
  const lists = options.filter(({ kinds }) => kinds.has("array"));
  const objects = options.filter(({ kinds }) => kinds.has("object"));
  return {
    kinds: new Set(options.flatMap(({ kinds }) => [...kinds])),
    hasOnlyDataUrls: options.every(({ kinds, hasOnlyDataUrls = false }) => hasOnlyDataUrls || !kinds.has("string")),
    items: lists.length === 1 ? lists[0]?.items : anything,
    enough: Number.POSITIVE_INFINITY,
    ...(objects.length === 1 ? { fields: objects[0]?.fields, others: objects[0]?.others } : { others: anything }),
  };
}

/** One more than a list may have shows that it is too long. */
function enoughOf({ minItems, maxItems }: Readonly<Record<string, unknown>>): number {
  return Math.max(typeof minItems === "number" ? minItems : 0, typeof maxItems === "number" ? maxItems + 1 : 0);
}
