/** Schemas of request bodies of the OpenAI API for one model. */
import { z } from "zod";
import { vectorSize } from "../../../author/openai.ts";
import type { ServedModel } from "../../served-model.ts";
import { RequestFault } from "./errors.ts";

/** Maximum number of inputs in one request, as on OpenAI's servers. */
const MAX_INPUTS = 2048;

type Model = Pick<ServedModel, "name" | "inputSchema" | "outputSchema" | "openai">;

export type EmbeddingRequest = z.output<ReturnType<typeof embeddingRequest>>;

export function embeddingRequest(model: Model) {
  const { output = "", tokenIds } = model.openai.embeddings ?? {};
  const size = vectorSize(model, output);
  const hint =
    size === undefined
      ? "this model's vectors have a size of their own, and cannot be shortened; leave it out"
      : `vectors have ${size} numbers, and cannot be shortened; leave it out`;
  return z.object({
    model: z.string().nullish(),
    input: textOrTexts(tokenIds !== undefined),
    encoding_format: z.enum(["float", "base64"], 'must be "float" or "base64"').nullish(),
    dimensions: (size === undefined ? z.null(hint) : z.union([z.literal(size), z.null()], hint)).optional(),
  });
}

export type RerankRequest = z.output<ReturnType<typeof rerankRequest>>;

export function rerankRequest() {
  const one = z.union([text, z.object({ text })], 'must be a text, or an object as {"text": …}');
  return z.object({
    model: z.string().nullish(),
    query: text,
    documents: list(one, 'must be a list of texts, or of objects as {"text": …}'),
    top_n: z.int("must be a whole number of at least 1").min(1, "must be a whole number of at least 1").nullish(),
    return_documents: z.boolean("must be true or false").nullish(),
  });
}

export type ClassifyRequest = z.output<ReturnType<typeof classifyRequest>>;

export function classifyRequest() {
  return z.object({ model: z.string().nullish(), input: textOrTexts(false) });
}

/** Options of Cohere that change scores. The server refuses them, because it cannot apply them. */
const unusable = ["rank_fields", "max_tokens_per_doc", "max_chunks_per_doc"];

/** Checks a body. @throws RequestFault for the first fault */
export function checked<T>(schema: z.ZodType<T>, given: Readonly<Record<string, unknown>>): T {
  for (const param of unusable) {
    if (given[param] === undefined || given[param] === null) continue;
    throw new RequestFault(`${param}: this server cannot honour it; leave it out`, { param });
  }
  const { data, error } = schema.safeParse(given);
  if (error === undefined) return data;
  const { path = [], message = error.message } = error.issues[0] ?? {};
  const [param = "", ...inner] = path.map(String);
  throw new RequestFault(`${param}${inner.map((key) => `[${key}]`).join("")}: ${message}`, { param });
}

const text = z.string("must be a text");

function list<T extends z.ZodType>(element: T, message?: string) {
  const error = ({ input }: { readonly input: unknown }) => sizeFault(input) ?? "is malformed";
  return z.array(element, message).min(1, { error }).max(MAX_INPUTS, { error });
}

function sizeFault(input: unknown): string | undefined {
  if (!Array.isArray(input)) return undefined;
  if (input.length === 0) return "must not be empty";
  return input.length > MAX_INPUTS ? `must have at most ${MAX_INPUTS} elements, not ${input.length}` : undefined;
}

const otherTokens =
  "must be a text or a list of texts, not token ids: ids of another tokenizer would give wrong vectors. With LangChain's OpenAIEmbeddings set check_embedding_ctx_length=False";
const tokens = z.array(z.int());
const oneOrMoreTokens = z.union([tokens.min(1), list(tokens)]);

function textOrTexts(takesTokens: boolean) {
  const error = ({ input }: { readonly input: unknown }) => {
    const isRefused = !takesTokens && oneOrMoreTokens.safeParse(input).success;
    return isRefused ? otherTokens : (sizeFault(input) ?? "must be a text or a list of texts");
  };
  const texts = [text, list(text)] as const;
  return z.union(takesTokens ? [...texts, ...oneOrMoreTokens.options] : texts, { error });
}
