/** The routes `POST /v1/rerank` and `/v2/rerank`, which Cohere, Jina and vLLM define. */
import type { Context } from "hono";
import type { OpenAiFields } from "../../../../author/openai.ts";
import { isObject } from "../../../../base/json.ts";
import { type AskedOptions, type Given, type Inputs, predict } from "./asked.ts";
import { failureResponse, RequestFault } from "./errors.ts";

export interface RerankOptions extends AskedOptions {
  readonly fields: NonNullable<OpenAiFields["rerank"]>;
  readonly version: "1" | "2";
}

interface Asked extends Inputs {
  readonly documents: readonly string[];
  /** Maximum number of results in the answer. */
  readonly count: number;
  readonly returnsDocuments: boolean;
}

export async function rerank(c: Context, options: RerankOptions): Promise<Response> {
  const { fields, model, version } = options;
  const { asked, ended } = await predict(c, options, (given) => askedOf(given, options));
  if (!ended.ok) return failureResponse(c, ended.message);
  const results = ended.outputs
    .map((output, index) => ({
      index,
      relevance_score: Number(JSON.parse(output)[fields.score]),
      ...(asked.returnsDocuments && { document: { text: asked.documents[index] } }),
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score)
    .slice(0, asked.count);
  return c.json({ id: ended.id, model: model.name, results, meta: { api_version: { version } } });
}

function askedOf(given: Given, { fields }: RerankOptions): Asked {
  const { query, documents, top_n: count = null, return_documents: returnsDocuments = false } = given;
  if (typeof query !== "string") throw new RequestFault("query: must be a text", { param: "query" });
  for (const param of ["rank_fields", "max_tokens_per_doc", "max_chunks_per_doc"]) {
    if (given[param] === undefined || given[param] === null) continue;
    throw new RequestFault(`${param}: this server cannot honour it; leave it out`, { param });
  }
  if (count !== null && !(typeof count === "number" && Number.isInteger(count) && count >= 1)) {
    throw new RequestFault("top_n: must be a whole number of at least 1", { param: "top_n" });
  }
  const texts = documentsIn(documents);
  return {
    inputs: texts.map((text) => ({ [fields.query]: query, [fields.document]: text })),
    param: "documents",
    documents: texts,
    count: count ?? texts.length,
    returnsDocuments: returnsDocuments === true,
  };
}

/** The texts of `documents`, a list of texts or of objects with a `text`. @throws RequestFault for other values */
function documentsIn(documents: unknown): string[] {
  const fault = new RequestFault('documents: must be a list of texts, or of objects as {"text": …}', {
    param: "documents",
  });
  if (!Array.isArray(documents)) throw fault;
  return documents.map((each: unknown) => {
    const text = isObject(each) ? each.text : each;
    if (typeof text !== "string") throw fault;
    return text;
  });
}
