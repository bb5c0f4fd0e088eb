/** Schemas of request bodies of the OpenAI API, and the faults of requests. */
import { z } from "zod";
import { type ProblemCode, ProblemError } from "../../problem.ts";

interface FaultOptions {
  /** Name of the faulty member of the request. */
  readonly param?: string;
  /** Code of the problem details, which decides the HTTP status. */
  readonly problem?: ProblemCode;
  /** Code that clients may compare, such as `model_not_found`. */
  readonly code?: string;
}

export class RequestFault extends ProblemError {
  readonly param: string | null;
  readonly code: string;

  constructor(detail: string, { problem = "inputs_invalid", param, code = "invalid_value" }: FaultOptions = {}) {
    super({ code: problem, detail });
    this.param = param ?? null;
    this.code = code;
  }
}

/** The error for a wrong member of a request. @param path names of the member and of the values inside it; empty for the whole request */
export function memberFault([param, ...inner]: readonly string[], message: string): RequestFault {
  if (param === undefined) return new RequestFault(message);
  return new RequestFault(`${param}${inner.map((key) => `[${key}]`).join("")}: ${message}`, { param });
}

/** Maximum number of inputs in one request, as on OpenAI's servers. */
const MAX_INPUTS = 2048;

function list<T extends z.ZodType>(element: T, error: string) {
  return z.array(element, error).min(1, error).max(MAX_INPUTS, error);
}

const error = `must be a text or a list of 1 to ${MAX_INPUTS} texts`;
const text = z.string("must be a text");
const count = z.int("must be a whole number of at least 1").min(1, "must be a whole number of at least 1");
const document = z.union(
  [text, z.object({ text }).transform((document) => document.text)],
  'must be a text, or an object as {"text": …}',
);

/** Options of Cohere that change scores. The server refuses them, because it cannot apply them. */
const unusable = z.null("this server cannot honour it; leave it out").optional();

/** Members of all requests. Some clients write null for a member that their caller leaves out. */
export const anyRequest = z.looseObject(
  { model: text.nullish() },
  'the body must be a JSON object, as {"model": …, "input": …}',
);

const textsOnly = `${error}, not token ids: ids of another tokenizer would give wrong vectors. With LangChain's OpenAIEmbeddings set check_embedding_ctx_length=False`;

export const embeddingRequest = z.object({
  input: z.union([text, list(text, textsOnly)], textsOnly),
  encoding_format: z.enum(["float", "base64"], 'must be "float" or "base64"').nullish(),
  dimensions: z.unknown().optional(),
});

export const rerankRequest = z.object({
  query: text,
  documents: list(document, `must be a list of 1 to ${MAX_INPUTS} texts, or of objects as {"text": …}`),
  top_n: count.nullish(),
  return_documents: z.boolean("must be true or false").nullish(),
  rank_fields: unusable,
  max_tokens_per_doc: unusable,
  max_chunks_per_doc: unusable,
});

export const classifyRequest = z.object({ input: z.union([text, list(text, error)], error) });
