/** Translates requests for embeddings, reranking and classification to inputs of a model, and outputs to answers. */
import type { z } from "zod";
import { type OpenAi, vectorSize } from "../../../author/openai.ts";
import { isObject } from "../../../base/json.ts";
import { mapInTurns } from "../../../base/turn.ts";
import type { ServedModel } from "../../served-model.ts";
import type { Succeeded } from "../waited-predictions.ts";
import { classifyRequest, embeddingRequest, memberFault, rerankRequest } from "./requests.ts";

export type Use = keyof OpenAi;

interface Asked<R, F> {
  readonly request: R;
  /** The model's fields for this use. */
  readonly fields: F;
  readonly model: ServedModel;
}

export interface Translation<R, F> {
  readonly schema: z.ZodType<R>;
  /** Member of the request that has the inputs. */
  readonly param: string;
  /** @throws RequestFault */
  inputs(asked: Asked<R, F>): readonly unknown[];
  /** @returns the answer as JSON text */
  answer(asked: Asked<R, F>, succeeded: Succeeded): Promise<string> | string;
}

type FieldsOf<U extends Use> = NonNullable<OpenAi[U]>;

export const embeddings: Translation<z.output<typeof embeddingRequest>, FieldsOf<"embeddings">> = {
  schema: embeddingRequest,
  param: "input",
  inputs({ request: { input, dimensions }, fields, model }) {
    const size = vectorSize(model, fields.output);
    if (dimensions !== undefined && dimensions !== null && dimensions !== size) {
      const sizes =
        size === undefined ? "this model's vectors have a size of their own" : `vectors have ${size} numbers`;
      throw memberFault(["dimensions"], `${sizes}, and cannot be shortened; leave it out`);
    }
    return [input].flat().map((text) => ({ [fields.input]: text }));
  },
  async answer({ request, fields, model }, { outputs }) {
    const isBase64 = request.encoding_format === "base64";
    const texts = [request.input].flat();
    let tokens = 0;
    const data = await mapInTurns(outputs, (output, index) => {
      tokens += tokensOf(fields, texts[index] ?? "", output);
      const vector = fieldOf(output, fields.output);
      const embedding = isBase64 && Array.isArray(vector) ? base64Of(vector) : vector;
      return JSON.stringify({ object: "embedding", index, embedding });
    });
    const usage = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
    return `{"object":"list","data":[${data.join()}],"model":${JSON.stringify(model.name)},"usage":${usage}}`;
  },
};

/** Encodes a vector as little-endian float32 in base64, which OpenAI's clients decode. */
function base64Of(vector: readonly number[]): string {
  return new Uint8Array(Float32Array.from(vector).buffer).toBase64();
}

function tokensOf({ tokens }: FieldsOf<"embeddings">, text: string, output: unknown): number {
  if (typeof tokens === "function") return tokens(text);
  return tokens === undefined ? 0 : Number(fieldOf(output, tokens));
}

function fieldOf(output: unknown, name: string): unknown {
  return isObject(output) ? output[name] : undefined;
}

export function rerank(version: string): Translation<z.output<typeof rerankRequest>, FieldsOf<"rerank">> {
  return {
    schema: rerankRequest,
    param: "documents",
    inputs: ({ request: { query, documents }, fields }) =>
      documents.map((text) => ({ [fields.query]: query, [fields.document]: text })),
    answer({ request: { documents, top_n: count, return_documents }, fields, model }, { id, outputs }) {
      const results = outputs
        .map((output, index) => ({
          index,
          relevance_score: Number(fieldOf(output, fields.score)),
          ...(return_documents === true && { document: { text: documents[index] } }),
        }))
        .sort((a, b) => b.relevance_score - a.relevance_score)
        .slice(0, count ?? documents.length);
      return JSON.stringify({ id, model: model.name, results, meta: { api_version: { version } } });
    },
  };
}

export const classify: Translation<z.output<typeof classifyRequest>, FieldsOf<"classify">> = {
  schema: classifyRequest,
  param: "input",
  inputs: ({ request: { input }, fields }) => [input].flat().map((text) => ({ [fields.input]: text })),
  answer({ fields, model }, { id, outputs }) {
    const data = outputs.map((output, index) => {
      const scores = scoresIn(output, fields);
      const [best] = scores.toSorted((a, b) => b.score - a.score);
      const [labels, probs] = [scores.map(({ label }) => label), scores.map(({ score }) => score)];
      return { index, label: best?.label, probs, labels, num_classes: scores.length };
    });
    const created = Math.floor(Date.now() / 1000);
    const usage = { prompt_tokens: 0, total_tokens: 0 };
    return JSON.stringify({ id, object: "list", created, model: model.name, data, usage });
  },
};

interface Scored {
  readonly label: string;
  readonly score: number;
}

/** The labels and scores of an output, in its order. The types need no check: at its start, the server has checked the model's output schema. */
function scoresIn(output: unknown, { scores: field, labels, label }: FieldsOf<"classify">): Scored[] {
  const scores = fieldOf(output, field);
  if (label !== undefined) return [{ label: String(fieldOf(output, label)), score: Number(scores) }];
  if (labels !== undefined && Array.isArray(scores)) {
    return labels.map((label, i) => ({ label, score: Number(scores[i]) }));
  }
  if (!Array.isArray(scores)) {
    return Object.entries(scores ?? {}).map(([label, score]) => ({ label, score: Number(score) }));
  }
  return scores.map((each: object) => {
    const values: unknown[] = Object.values(each);
    const isText = (value: unknown) => typeof value === "string";
    return { label: String(values.find(isText)), score: Number(values.find((value) => !isText(value))) };
  });
}
