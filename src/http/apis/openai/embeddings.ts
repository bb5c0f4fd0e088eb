/** The route `POST /v1/embeddings` of OpenAI's API. */
import type { Context } from "hono";
import type { OpenAi } from "../../../author/openai.ts";
import { type AskedOptions, type Inputs, mapped, predict } from "./asked.ts";
import { failureResponse } from "./errors.ts";
import type { EmbeddingRequest } from "./requests.ts";

type Fields = NonNullable<OpenAi["embeddings"]>;

export interface EmbeddingsOptions extends AskedOptions<EmbeddingRequest> {
  readonly fields: Fields;
}

interface Asked extends Inputs {
  readonly texts: readonly (string | readonly number[])[];
  readonly isBase64: boolean;
}

export async function embeddings(c: Context, options: EmbeddingsOptions): Promise<Response> {
  const { model, fields } = options;
  const { asked, ended } = await predict(c, options, (given) => askedOf(given, fields));
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

function askedOf({ input, encoding_format: format }: EmbeddingRequest, fields: Fields): Asked {
  const texts = inputsIn(input);
  const inputs = texts.map((text) => ({ [typeof text === "string" ? fields.input : (fields.tokenIds ?? "")]: text }));
  return { texts, inputs, param: "input", isBase64: format === "base64" };
}

/** The inputs as a list: a single text, or the token ids of a single text, become a list of one. */
function inputsIn(input: EmbeddingRequest["input"]): Asked["texts"] {
  if (typeof input === "string") return [input];
  const tokens = input.filter((each) => typeof each === "number");
  return tokens.length > 0 ? [tokens] : input.filter((each) => typeof each !== "number");
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
