/** Which kinds of JSON value a schema takes in which places: what can be checked before a text is made into values. */

import * as z from "../../author/z.ts";
import { SchemaNode } from "../../base/json-schema.ts";

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
    const root = z.toJSONSchema(schema, {
      io: "input",
      unrepresentable: "any",
      override: ({ zodSchema, jsonSchema }) => {
        if (takesOthers(zodSchema)) for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key);
      },
    });
    return expectedOf(SchemaNode.of(root));
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

/** A schema in these words, each read when it is asked for: a schema within itself has no end. */
class ReadLater implements Expected {
  readonly kinds: ReadonlySet<Kind>;
  readonly #option: SchemaNode;
  #fields: ReadonlyMap<string, Expected> | undefined;

  constructor(option: SchemaNode) {
    this.#option = option;
    this.kinds = new Set([...option.types].map((type) => (type === "integer" ? "number" : type)));
  }

  get hasOnlyDataUrls() {
    return this.#option.takesArrayBytes;
  }

  get items() {
    return expectedOf(this.#option.items);
  }

  get first() {
    return this.#option.first?.map(expectedOf);
  }

  /** One more than a list may have shows that it is too long. */
  get enough() {
    const { minItems = 0, maxItems = -1 } = this.#option;
    return Math.max(minItems, maxItems + 1);
  }

  get fields() {
    if (this.#option.hasPatterns) return undefined;
    this.#fields ??= new Map([...this.#option.fields].map(([name, field]) => [name, expectedOf(field)]));
    return this.#fields;
  }

  get others() {
    if (this.#option.hasPatterns) return anything;
    return this.#option.others && expectedOf(this.#option.others);
  }
}

const known = new WeakMap<SchemaNode, Expected>();

function expectedOf(node: SchemaNode): Expected {
  const before = known.get(node);
  if (before !== undefined) return before;
  const { options, types } = node;
  const [only, ...others] = options;
  const expected =
    node.isCombined || only === undefined || (others.length === 0 && types.size === 0)
      ? anything
      : others.length === 0
        ? new ReadLater(only)
        : eitherOf(options.map(expectedOf));
  known.set(node, expected);
  return expected;
}

/** Takes a value of any option. Looks into lists and objects where a single option has them. */
function eitherOf(options: readonly Expected[]): Expected {
  const lists = options.filter(({ kinds }) => kinds.has("array"));
  const objects = options.filter(({ kinds }) => kinds.has("object"));
  const list = lists.length === 1 ? lists[0] : undefined;
  const object = objects.length === 1 ? objects[0] : undefined;
  return {
    kinds: new Set(options.flatMap(({ kinds }) => [...kinds])),
    hasOnlyDataUrls: options.every(({ kinds, hasOnlyDataUrls = false }) => hasOnlyDataUrls || !kinds.has("string")),
    enough: Number.POSITIVE_INFINITY,
    get items() {
      return list === undefined ? anything : list.items;
    },
    get first() {
      return list?.first;
    },
    get fields() {
      return object?.fields;
    },
    get others() {
      return object === undefined ? anything : object.others;
    },
  };
}
