/** The routes `POST /v1/rerank` and `/v2/rerank`, which Cohere, Jina and vLLM define. */
import type { Context } from "hono";
import type { OpenAiFields } from "../../../author/openai.ts";
import { type AskedOptions, type Inputs, predict } from "./asked.ts";
import { failureResponse } from "./errors.ts";
import type { RerankRequest } from "./requests.ts";

type Fields = NonNullable<OpenAiFields["rerank"]>;

export interface RerankOptions extends AskedOptions<RerankRequest> {
  readonly fields: Fields;
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
  const { asked, ended } = await predict(c, options, (given) => askedOf(given, fields));
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

function askedOf({ query, documents, top_n: count, return_documents }: RerankRequest, fields: Fields): Asked {
  const texts = documents.map((each) => (typeof each === "string" ? each : each.text));
  return {
    inputs: texts.map((text) => ({ [fields.query]: query, [fields.document]: text })),
    param: "documents",
    documents: texts,
    count: count ?? texts.length,
    returnsDocuments: return_documents === true,
  };
}
