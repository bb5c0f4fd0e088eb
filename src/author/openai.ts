/** The fields of a model that the OpenAI routes read and write, as the author declares them. */
import { type JsonSchema, SchemaNode } from "../base/schemas/json-schema.ts";
import type { HookContext, OpenContext } from "./hook-context.ts";
import type { Tensor } from "./tensor.ts";
import * as z from "./z.ts";

/** Names of the fields that accept any value of the type `V`. */
type Taking<T, V> = T extends object
  ? { [K in keyof T & string]-?: [V] extends [T[K]] ? K : never }[keyof T & string]
  : never;
/** Names of the fields whose values are of the type `V`. */
type Giving<T, V> = T extends object
  ? { [K in keyof T & string]-?: [T[K]] extends [V] ? K : never }[keyof T & string]
  : never;
/** Names of the output fields with a vector: a list of numbers, or a tensor. */
type Vector<O extends z.ZodType> = Giving<z.input<O>, readonly number[]> | Giving<z.output<O>, Tensor>;
/** Scores by label, or a list of objects with a label and a score. */
type Scored = Readonly<Record<string, number>> | readonly Readonly<Record<string, string | number>>[];

/** The author's declaration of the fields that the routes `/v1/embeddings`, `/v1/rerank` and `/classify` use. */
export interface OpenAiDeclaration<I extends z.ZodType, O extends z.ZodType, S = unknown, Params = unknown> {
  /** Fields for `/v1/embeddings`: a text in, a vector out. */
  readonly embeddings?: {
    /** Input field that takes the text. */
    readonly input: Taking<z.input<I>, string>;
    /** Output field with the vector. */
    readonly output: Vector<O>;
    /**
     * Number of tokens of a text, for `usage`: a function, or an output field with the number. Default: `usage` is 0.
     */
    readonly tokens?:
      | ((text: string, context: Pick<HookContext<S, Params>, "state" | "params">) => number)
      | Giving<z.input<O>, number>;
  };
  /** Fields for `/v1/rerank` and `/v2/rerank`: a query and a document in, a score out. */
  readonly rerank?: {
    readonly query: Taking<z.input<I>, string>;
    readonly document: Taking<z.input<I>, string>;
    /** Output field with the score. A higher score means a better document. */
    readonly score: Giving<z.input<O>, number>;
  };
  /** Fields for `/classify`: a text in, labels with scores out. */
  readonly classify?: {
    /** Input field that takes the text, or the URL of a file. */
    readonly input: Taking<z.input<I>, string>;
    /**
     * Output field with the scores: numbers by label, or a list of objects with a label and a score. A list of numbers
     * needs `labels`; a single number needs `label`.
     */
    readonly scores: Giving<z.input<O>, Scored | number> | Vector<O>;
    /** Labels for a list of scores, in the order of the list. */
    readonly labels?: readonly string[];
    /** Output field with the label of a single score. */
    readonly label?: Giving<z.input<O>, string>;
  };
}

const name = z.string("must be the name of a field");
const embeddings = z.strictObject({ input: name, output: name, tokens: name.optional() });
const rerank = z.strictObject({ query: name, document: name, score: name });
const labels = z.array(z.string("must be a list of texts"), "must be a list of texts").min(1).readonly();
const classify = z.strictObject({
  input: name,
  scores: name,
  labels: labels.optional(),
  label: name.optional(),
});

/** The declaration without functions, which a built model has as JSON. */
export const openAiFields = z.strictObject({
  embeddings: embeddings.optional(),
  rerank: rerank.optional(),
  classify: classify.optional(),
});
export type OpenAiFields = z.infer<typeof openAiFields>;

type CountTokens = (text: string, context?: OpenContext) => number;
/** The declaration without the model's types. `tokens` is a function or the name of a field. */
export type OpenAi = Omit<OpenAiFields, "embeddings"> & {
  readonly embeddings?:
    | (Omit<z.infer<typeof embeddings>, "tokens"> & { readonly tokens?: string | CountTokens | undefined })
    | undefined;
};

const countTokens = z.custom<CountTokens>((value) => typeof value === "function");
/** The declaration as an author writes it: `tokens` may also be a function. */
export const openAiDeclaration = openAiFields.extend({
  embeddings: embeddings
    .extend({
      tokens: z.union([name, countTokens], "must be a function, or the name of an output field").optional(),
    })
    .optional(),
});

/** Drops `tokens` if it is a function, because a built model has the declaration as JSON. */
export function withoutFunctions({ embeddings, ...rest }: OpenAi): OpenAiFields {
  if (embeddings === undefined) return rest;
  const { tokens, ...fields } = embeddings;
  return { ...rest, embeddings: { ...fields, ...(typeof tokens === "string" && { tokens }) } };
}

export interface Schemas {
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
}

/** Faults of a declaration: missing fields and fields of a wrong type, each with the fix. */
export function openAiFaults({ embeddings, rerank, classify }: OpenAi, schemas: Schemas): string[] {
  const input = SchemaNode.of(schemas.inputSchema).fields;
  const output = SchemaNode.of(schemas.outputSchema).fields;
  const faults: string[] = [];
  const check = (path: string, key: string | undefined, of: "input" | "output", fits: Fits, noun: string) => {
    const fields = of === "input" ? input : output;
    const field = key === undefined ? undefined : fields.get(key);
    if (key === undefined || (field !== undefined && fits(field))) return;
    const problem =
      field === undefined ? `there is no ${of} field "${key}"` : `the ${of} field "${key}" is not ${noun}`;
    faults.push(`openai.${path}: ${problem}; name ${noun} of the ${of} (it has ${[...fields.keys()].join(", ")})`);
  };
  if (embeddings !== undefined) {
    const { tokens } = embeddings;
    check("embeddings.input", embeddings.input, "input", takesText, "a text");
    check("embeddings.output", embeddings.output, "output", isVector, "a list of numbers");
    check("embeddings.tokens", typeof tokens === "string" ? tokens : undefined, "output", isNumber, "a number");
  }
  if (rerank !== undefined) {
    check("rerank.query", rerank.query, "input", takesText, "a text");
    check("rerank.document", rerank.document, "input", takesText, "a text");
    check("rerank.score", rerank.score, "output", isNumber, "a number");
  }
  if (classify !== undefined) {
    const { labels, label } = classify;
    check("classify.input", classify.input, "input", takesText, "a text");
    check("classify.label", label, "output", takesText, "a text");
    if (labels !== undefined) check("classify.scores", classify.scores, "output", isVector, "a list of numbers");
    else if (label !== undefined) check("classify.scores", classify.scores, "output", isNumber, "a number");
    else check("classify.scores", classify.scores, "output", isScored, "a score for each label");
    const size = labels && sizeOf(output.get(classify.scores));
    if (size !== undefined && labels?.length !== size) {
      faults.push(`openai.classify.labels: must have ${size} labels, one for each score, not ${labels?.length}`);
    }
  }
  return faults;
}

/** The size of an output field with a vector; undefined for a free size. */
export function vectorSize({ outputSchema }: Pick<Schemas, "outputSchema">, field: string): number | undefined {
  return sizeOf(SchemaNode.of(outputSchema).fields.get(field));
}

type Fits = (field: SchemaNode) => boolean;

function takesText({ types, takesArrayBytes }: SchemaNode): boolean {
  return types.has("string") && !takesArrayBytes;
}

function isNumber({ types }: SchemaNode): boolean {
  return types.size > 0 && [...types].every((type) => type === "number" || type === "integer");
}

/**
 * The list schema of a field that takes only a list, or as an `ndarray` field a list or a data URI; otherwise
 * undefined.
 */
function listOf(field: SchemaNode): SchemaNode | undefined {
  const lists = field.options.filter(({ takesArrayBytes }) => !takesArrayBytes);
  const [list] = lists;
  return lists.length === 1 && list?.types.size === 1 && list.types.has("array") ? list : undefined;
}

function isVector(field: SchemaNode): boolean {
  const list = listOf(field);
  return list?.hasItems === true && isNumber(list.items);
}

function sizeOf(field: SchemaNode | undefined): number | undefined {
  const { minItems, maxItems } = (field && listOf(field)?.limits) ?? {};
  return minItems === maxItems ? maxItems : undefined;
}

function isScored(field: SchemaNode): boolean {
  if (isObject(field)) {
    const { fields, others } = field;
    return fields.size > 0 ? [...fields.values()].every(isNumber) : others !== undefined && isNumber(others);
  }
  const list = listOf(field);
  if (list?.hasItems !== true || !isObject(list.items)) return false;
  const fields = [...list.items.fields.values()];
  return fields.length === 2 && fields.some(({ types }) => types.has("string")) && fields.some(isNumber);
}

function isObject({ types }: SchemaNode): boolean {
  return types.size === 1 && types.has("object");
}
