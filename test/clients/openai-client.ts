/** `openai-client.ts PACKAGE URL MODEL`: compares the answers to OpenAI's npm client with `POST /predictions`. */
import { deepEqual, equal } from "node:assert/strict";

/** The methods of OpenAI's client that this script uses: the client's own types are not installed. */
interface OpenAi {
  readonly embeddings: {
    create(asked: object): Promise<{ readonly data: readonly { readonly embedding: readonly number[] }[] }>;
  };
  readonly models: { list(): AsyncIterable<{ readonly id: string }> };
}

const [path = "", url = "", model = ""] = process.argv.slice(2);
const { OpenAI } = await import(path);
const client: OpenAi = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
for (const text of ["A torch needs a bracket.", "", "漢字 😀"]) {
  const response = await fetch(`${url}/predictions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Prefer: "wait" },
    body: JSON.stringify([{ text }]),
  });
  const answer = await response.json();
  // Without encoding_format, OpenAI's client requests base64.
  for (const format of [{}, { encoding_format: "float" }]) {
    const { data } = await client.embeddings.create({ model, input: text, ...format });
    deepEqual([...(data[0]?.embedding ?? [])], (answer as Answer).outputs[0]?.embedding);
  }
}
for await (const { id } of client.models.list()) equal(id, model);
const refused: unknown = await client.embeddings.create({ model, input: "a", dimensions: 5 }).catch((error) => error);
equal(Reflect.get(Object(refused), "param"), "dimensions");

interface Answer {
  readonly outputs: readonly { readonly embedding: readonly number[] }[];
}
