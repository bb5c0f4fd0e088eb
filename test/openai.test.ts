/**
 * OpenAI's API, and similar APIs for reranking and classification: the values of POST /predictions, and errors in the
 * form of each API.
 */
import { describe, expect, test } from "bun:test";
import { openAiFaults } from "../src/author/openai.ts";
import { wireSchema } from "../src/author/wire-schema.ts";
import { float32, ndarray, z } from "../src/index.ts";
import { hold } from "./helpers/hold.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["texts", "lab"], "texts");
const sentence = "A torch needs a bracket";

interface Answer {
  readonly data: readonly { readonly embedding: unknown }[];
  readonly usage: { readonly total_tokens: number };
  readonly results: readonly unknown[];
  readonly error: { readonly message: string; readonly code: string };
}

async function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  { client }: Pick<SharedServer, "client"> = server,
) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await client.fetch(path, { method: "POST", headers, body: text });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer };
}

const embed = (input: unknown, more: object = {}) => post("/v1/embeddings", { model: "texts", input, ...more });

/** The vectors that POST /predictions gives for these texts. */
async function vectors(...texts: readonly string[]): Promise<unknown[]> {
  const { outputs = [] } = await server.client.predict(texts.map((text) => ({ text })));
  return outputs.map(({ vector }) => vector);
}

describe("POST /v1/embeddings", () => {
  test("answers a text and a list with the numbers of POST /predictions", async () => {
    const texts = [sentence, "", "a b", "ä 漢 😀"];
    const expected = await vectors(...texts);
    const { status, body } = await embed(texts);
    expect<unknown>([status, body]).toEqual([
      200,
      {
        object: "list",
        data: expected.map((embedding, index) => ({ object: "embedding", index, embedding })),
        model: "texts",
        usage: { prompt_tokens: 11, total_tokens: 11 },
      },
    ]);
    const alone = await embed(sentence);
    expect<unknown>(alone.body.data).toEqual([{ object: "embedding", index: 0, embedding: expected[0] }]);
  });

  test("answers encoding_format base64 with the same numbers as little-endian float32", async () => {
    const { body } = await embed([sentence, "b"], { encoding_format: "base64" });
    const bytes = body.data.map(({ embedding }) => Uint8Array.fromBase64(String(embedding)));
    const numbers = bytes.map(({ buffer }) =>
      Array.from({ length: 3 }, (_, i) => new DataView(buffer).getFloat32(4 * i, true)),
    );
    expect<unknown>(numbers).toEqual(await vectors(sentence, "b"));
  });

  test("accepts `dimensions` equal to the vector's size, and a model name with a tag, without one, or none", async () => {
    const { tag } = z.looseObject({ tag: z.string() }).parse(await server.client.json("/"));
    // Some clients write null for what their caller leaves out.
    const unset = { model: null, encoding_format: null, user: null, top_n: null };
    for (const more of [
      { dimensions: 3 },
      { dimensions: null },
      { model: `texts:${tag}` },
      { model: undefined },
      unset,
    ]) {
      expect([more, (await embed("a", more)).status]).toEqual([more, 200]);
    }
  });

  const long = "x".repeat(201);
  test.each([
    ["without input", {}, "input", "input: must be a text"],
    ["with an empty list", { input: [] }, "input", "input: must be a text or a list of 1 to 2048 texts"],
    ["with a number among texts", { input: ["a", 7] }, "input", "input: must be a text or a list of 1 to"],
    ["with a text that is too long", { input: ["a", long] }, "input", "input[1]: "],
    ["with too many texts", { input: Array(2049).fill("a") }, "input", "1 to 2048 texts"],
    ["with other dimensions", { input: "a", dimensions: 2 }, "dimensions", "vectors have 3 numbers"],
    ["with another encoding", { input: "a", encoding_format: "int8" }, "encoding_format", '"float" or "base64"'],
  ])("refuses a request %s with 400", async (_, body, param, message) => {
    const refused = await post("/v1/embeddings", body);
    expect(refused).toMatchObject({
      status: 400,
      body: {
        error: {
          message: expect.stringContaining(message),
          type: "invalid_request_error",
          param,
          code: "invalid_value",
        },
      },
    });
  });

  test("refuses a body that is no JSON object or that is too large", async () => {
    expect((await post("/v1/embeddings", "{")).body.error.code).toBe("not_json");
    expect((await post("/v1/embeddings", "[]")).body.error.message).toContain("must be a JSON object");
    const large = await post("/v1/embeddings", { input: "x".repeat(8 * 2 ** 20) });
    expect([large.status, large.body.error.code]).toEqual([413, "body_too_large"]);
  });

  test("answers 500 for an input that the model's code refuses, and asks clients not to send it again", async () => {
    const { status, headers, body } = await embed(["a", "unwanted"]);
    expect([status, headers.get("x-should-retry")]).toEqual([500, "false"]);
    expect(body.error).toMatchObject({ type: "server_error", code: "prediction_failed" });
    expect(body.error.message).toContain("input 1: this text is not wanted");
  });

  test("answers 429 with Retry-After if the queue is full, and counts the refusal", async () => {
    await using full = await server.beside("texts", { maxQueuedItems: 1 });
    await using gate = hold();
    await full.client.create([{ text: gate.url("a") }]);
    const refused = await post("/v1/embeddings", { input: "b" }, {}, full);
    expect([refused.status, refused.headers.get("retry-after"), refused.body.error]).toEqual([
      429,
      expect.stringMatching(/^\d+$/),
      { message: expect.any(String), type: "rate_limit_error", param: null, code: "queue_full" },
    ]);
    expect(await full.client.metric('sconce_requests_rejected_total{code="429",cause="queue"}')).toBe(1);
    expect(await full.client.metric('sconce_http_requests_total{route="/v1/embeddings",code="429"}')).toBe(1);
  });
});

describe("POST /v1/rerank and /v2/rerank", () => {
  const documents = ["xyz", "torch", "a torch and a bracket"];
  const rerank = (more: object = {}, version = 2) =>
    post(`/v${version}/rerank`, { model: "texts", query: sentence, documents, ...more });

  test.each([1, 2])("sort the documents by the score of POST /predictions: v%d", async (version) => {
    const { outputs = [] } = await server.client.predict(documents.map((document) => ({ text: sentence, document })));
    const { status, body } = await rerank({}, version);
    expect<unknown>([status, body]).toEqual([
      200,
      {
        id: expect.any(String),
        model: "texts",
        results: [2, 1, 0].map((index) => ({ index, relevance_score: outputs[index]?.score })),
        meta: { api_version: { version: String(version) } },
      },
    ]);
  });

  test("keep the best top_n, with their documents if the request asks for them", async () => {
    const objects = documents.map((text) => ({ text }));
    const { body } = await rerank({ documents: objects, top_n: 1, return_documents: true });
    expect(body.results).toMatchObject([{ index: 2, document: { text: documents[2] } }]);
  });

  test.each([
    [{ query: 7 }, "query"],
    [{ documents: "a" }, "documents"],
    [{ documents: [{ title: "a" }] }, "documents"],
    [{ documents: [] }, "documents"],
    [{ top_n: 0 }, "top_n"],
    [{ max_tokens_per_doc: 10 }, "max_tokens_per_doc"],
  ])("refuse %p with 400", async (more, param) => {
    expect(await rerank(more)).toMatchObject({ status: 400, body: { error: { param } } });
  });
});

test("POST /classify answers with the best label, and all scores", async () => {
  const { status, body } = await post("/classify", { model: "texts", input: ["HELP", "hello"] });
  expect<unknown>([status, body]).toEqual([
    200,
    {
      id: expect.any(String),
      object: "list",
      created: expect.any(Number),
      model: "texts",
      data: [
        { index: 0, label: "loud", probs: [0.25, 0.75], labels: ["calm", "loud"], num_classes: 2 },
        { index: 1, label: "calm", probs: [0.75, 0.25], labels: ["calm", "loud"], num_classes: 2 },
      ],
      usage: { prompt_tokens: 0, total_tokens: 0 },
    },
  ]);
});

describe("the model", () => {
  const get = async (path: string, method = "GET") => {
    const response = await server.client.fetch(path, { method });
    return [response.status, await response.json()];
  };
  const texts = { id: "texts", object: "model", created: expect.any(Number), owned_by: "sconce" };

  test("is listed in GET /v1/models, and is found under its name", async () => {
    expect(await get("/v1/models")).toEqual([200, { object: "list", data: [texts] }]);
    expect(await get("/v1/models/texts")).toEqual([200, texts]);
  });

  test("is unknown under another name, and other paths and methods are refused, in OpenAI's form", async () => {
    const error = (code: string) => ({ error: expect.objectContaining({ type: "invalid_request_error", code }) });
    expect(await get("/v1/models/a%2Fb")).toEqual([404, error("model_not_found")]);
    expect(await get("/v1/chat/completions", "POST")).toEqual([404, error("not_found")]);
    expect(await get("/v1/embeddings")).toEqual([405, error("method_not_allowed")]);
    expect(await embed("a", { model: "text-embedding-3-small" })).toMatchObject({
      status: 404,
      body: { error: { code: "model_not_found", message: expect.stringContaining('"texts"') } },
    });
  });

  test.each(["/v1/embeddings", "/v2/rerank", "/classify"])(
    "refuses pages of another site in OpenAI's form: POST %s",
    async (path) => {
      expect(await post(path, {}, { Origin: "https://page.example" })).toMatchObject({
        status: 403,
        body: { error: { type: "invalid_request_error", code: "origin_refused" } },
      });
    },
  );

  test.each([
    ["/v1/embeddings", "embeddings"],
    ["/v1/rerank", "rerank"],
    ["/v2/rerank", "rerank"],
    ["/classify", "classify"],
  ])("without the declaration for it gets 404 from POST %s, with the field to declare", async (path, needed) => {
    await using other = await server.beside("lab");
    const { status, body } = await post(path, { input: "a" }, {}, other);
    expect([status, body.error.code]).toEqual([404, "unsupported_model"]);
    expect(body.error.message).toEndWith(`can declare openai: { ${needed}: … } in defineModel`);
  });
});

describe("fields", () => {
  const schemas = (input: z.ZodType, output: z.ZodType) => ({
    inputSchema: wireSchema(input, "input"),
    outputSchema: wireSchema(output, "output"),
  });
  const text = z.object({ text: z.string(), prefix: z.boolean().default(false) });
  const vector = z.object({ vector: z.array(z.number()), size: z.int() });

  test("that are misspelled or have another type are refused by name when the model is declared", () => {
    const declared = {
      embeddings: { input: "txt", output: "size", tokens: "vector" },
      rerank: { query: "text", document: "prefix", score: "vector" },
      classify: { input: "text", scores: "vector" },
    };
    const faults = openAiFaults(declared, schemas(text, vector));
    expect(faults.map((fault) => fault.split(":")[0])).toEqual([
      "openai.embeddings.input",
      "openai.embeddings.output",
      "openai.embeddings.tokens",
      "openai.rerank.document",
      "openai.rerank.score",
      "openai.classify.scores",
    ]);
    expect(faults[0]).toBe(
      'openai.embeddings.input: there is no input field "txt"; name a text of the input (it has text, prefix)',
    );
    const labelled = { classify: { input: "text", scores: "v", labels: ["a"] } };
    expect(openAiFaults(labelled, schemas(text, z.object({ v: ndarray(float32(2)) })))).toEqual([
      "openai.classify.labels: must have 2 labels, one for each score, not 1",
    ]);
  });
});
