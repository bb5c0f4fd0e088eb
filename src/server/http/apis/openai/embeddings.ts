/** The route `POST /v1/embeddings` of OpenAI's API. */
import type { Context } from "hono";
import type { OpenAi } from "../../../../author/openai.ts";
import { type AskedOptions, type Given, type Inputs, mapped, predict, textsIn } from "./asked.ts";
import { failureResponse, RequestFault } from "./errors.ts";

type Fields = NonNullable<OpenAi["embeddings"]>;

export interface EmbeddingsOptions extends AskedOptions {
  readonly fields: Fields;
  /** Length of the embedding vectors, if the model declares it. */
  readonly size: number | undefined;
}

interface Asked extends Inputs {
  /** The request's inputs: texts, or lists of token ids. */
  readonly texts: readonly (string | readonly number[])[];
  readonly isBase64: boolean;
}

export async function embeddings(c: Context, options: EmbeddingsOptions): Promise<Response> {
  const { model, fields } = options;
  const { asked, ended } = await predict(c, options, (given) => askedOf(given, options));
  if (!ended.ok) return failureResponse(c, ended.message);
  const { outputs } = ended;
  const data = await mapped(outputs, (output, index) => {
    const vector = vectorIn(output, fields.output);
    const embedding = asked.isBase64 ? `"${base64Of(JSON.parse(vector))}"` : vector;
    return `{"object":"embedding","index":${index},"embedding":${embedding}}`;
  });
  const counts = await mapped(asked.texts, (text, i) => tokensOf(fields, text, outputs[i] ?? "{}"));
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  const usage = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
  const body = `{"object":"list","data":[${data.join()}],"model":${JSON.stringify(model.name)},"usage":${usage}}`;
  return c.body(body, 200, { "Content-Type": "application/json" });
}

function askedOf(given: Given, { fields, size }: EmbeddingsOptions): Asked {
  const { encoding_format: format = "float", dimensions = null } = given;
  if (format !== "float" && format !== "base64") {
    throw new RequestFault('encoding_format: must be "float" or "base64"', { param: "encoding_format" });
  }
  if (dimensions !== null && dimensions !== size) {
    const has = size === undefined ? "this model's vectors have a size of their own" : `vectors have ${size} numbers`;
    throw new RequestFault(`dimensions: ${has}, and cannot be shortened; leave it out`, { param: "dimensions" });
  }
  const texts = inputOf(given.input, fields);
  const inputs = texts.map((text) => ({ [typeof text === "string" ? fields.input : (fields.tokenIds ?? "")]: text }));
  return { texts, inputs, param: "input", isBase64: format === "base64" };
}

/** Converts `input` of the request to a list. @throws RequestFault */
function inputOf(input: unknown, { tokenIds }: Fields): Asked["texts"] {
  if (!Array.isArray(input) || typeof input[0] === "string" || input.length === 0) return textsIn(input, "input");
  const lists: unknown[] = typeof input[0] === "number" ? [input] : input;
  if (!lists.every(isTokens)) return textsIn(input, "input");
  if (tokenIds !== undefined) return lists;
  throw new RequestFault(
    "input: must be a text or a list of texts, not token ids: ids of another tokenizer would give wrong vectors. With LangChain's OpenAIEmbeddings set check_embedding_ctx_length=False",
    { param: "input" },
  );
}

function isTokens(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id));
}

/** The JSON text of the vector in an output. Copies the text instead of parsing it, so that the numbers keep their digits. */
function vectorIn(output: string, field: string): string {
  const start = `{${JSON.stringify(field)}:[`;
  // The vector is a flat list, so the first `]` ends it.
  if (output.startsWith(start)) return output.slice(start.length - 1, output.indexOf("]", start.length) + 1);
  return JSON.stringify(JSON.parse(output)[field]);
}

/** Encodes a vector as little-endian float32 in base64, which OpenAI's clients decode. */
function base64Of(vector: readonly number[]): string {
  return new Uint8Array(Float32Array.from(vector).buffer).toBase64();
}

function tokensOf({ tokens }: Fields, text: string | readonly number[], output: string): number {
  if (typeof text !== "string") return text.length;
  if (typeof tokens === "function") return tokens(text);
  return tokens === undefined ? 0 : JSON.parse(output)[tokens];
}
