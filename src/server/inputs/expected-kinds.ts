/** Finds the JSON types that a schema accepts in each part of an input. Forms are converted to these types. */

import * as z from "../../author/z.ts";
import { defOf } from "../../author/zod-internals.ts";
import { SchemaNode } from "../../base/json-schema.ts";

export type Kind = "string" | "number" | "boolean" | "null" | "array" | "object";

export interface Expected {
  readonly kinds: ReadonlySet<Kind>;
  /** Whether all strings that the schema accepts are data URIs. Other text in a form field is then parsed as JSON. */
  readonly hasOnlyDataUrls?: boolean;
  /** The JSON types of a list's elements; in a tuple, of the elements after `first`. */
  readonly items?: Expected | undefined;
  /** The JSON types of the first elements of a tuple, by index. */
  readonly first?: readonly Expected[] | undefined;
  readonly fields?: ReadonlyMap<string, Expected> | undefined;
  /** The JSON types of fields outside `fields`; undefined if the schema refuses such fields. */
  readonly otherFields?: Expected | undefined;
}

/** Accepts every value. Stands for schemas that this file cannot analyse. */
export const anything: Expected = {
  kinds: new Set(["string", "number", "boolean", "null", "array", "object"]),
  get items() {
    return anything;
  },
  get otherFields() {
    return anything;
  },
};

/** Analyses a schema, by the JSON Schema of its input. Keywords that this file does not know become `anything`. */
export function expectedKinds(schema: z.ZodType): Expected {
  try {
    const root = z.toJSONSchema(schema, {
      io: "input",
      unrepresentable: "any",
      override: ({ zodSchema, jsonSchema }) => {
        if (convertsOtherKinds(zodSchema))
          for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key);
      },
    });
    return fromSchemaNode(SchemaNode.of(root));
  } catch {
    // Happens only in tests: defineModel() refuses a schema without a JSON Schema.
    return anything;
  }
}

/** Whether a schema converts values of other JSON types: with coercion, `z.preprocess()` or `catch()`. */
function convertsOtherKinds(schema: z.core.$ZodType): boolean {
  const def = defOf(schema);
  const isCoerced = "coerce" in def && def.coerce === true;
  const isPrepared = "in" in def && def.in instanceof z.core.$ZodTransform;
  return isCoerced || isPrepared || def.type === "catch";
}

/** Analyses the parts of a schema when they are read, since a schema may contain itself. */
class LazyExpected implements Expected {
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
    return fromSchemaNode(this.#option.items);
  }

  get first() {
    return this.#option.first?.map(fromSchemaNode);
  }

  get fields() {
    if (this.#option.hasPatterns) return undefined;
    this.#fields ??= new Map([...this.#option.fields].map(([name, field]) => [name, fromSchemaNode(field)]));
    return this.#fields;
  }

  get otherFields() {
    if (this.#option.hasPatterns) return anything;
    return this.#option.others && fromSchemaNode(this.#option.others);
  }
}

const known = new WeakMap<SchemaNode, Expected>();

function fromSchemaNode(node: SchemaNode): Expected {
  const cached = known.get(node);
  if (cached !== undefined) return cached;
  const { options, types } = node;
  const [only, ...others] = options;
  const expected =
    node.isCombined || only === undefined || (others.length === 0 && types.size === 0)
      ? anything
      : others.length === 0
        ? new LazyExpected(only)
        : fromOptions(options.map(fromSchemaNode));
  known.set(node, expected);
  return expected;
}

/**
 * Accepts the values of all options. Elements and fields are checked only if exactly one option is a list, or an
 * object.
 */
function fromOptions(options: readonly Expected[]): Expected {
  const lists = options.filter(({ kinds }) => kinds.has("array"));
  const objects = options.filter(({ kinds }) => kinds.has("object"));
  const list = lists.length === 1 ? lists[0] : undefined;
  const object = objects.length === 1 ? objects[0] : undefined;
  return {
    kinds: new Set(options.flatMap(({ kinds }) => [...kinds])),
    hasOnlyDataUrls: options.every(({ kinds, hasOnlyDataUrls = false }) => hasOnlyDataUrls || !kinds.has("string")),
    get items() {
      return list === undefined ? anything : list.items;
    },
    get first() {
      return list?.first;
    },
    get fields() {
      return object?.fields;
    },
    get otherFields() {
      return object === undefined ? anything : object.otherFields;
    },
  };
}
