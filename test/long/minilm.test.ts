/** The served example minilm: its embeddings equal the embeddings of the original implementation. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { preparedModel, type Reference } from "../../examples/minilm/prepared.ts";
import { WordPieces } from "../../examples/minilm/word-pieces.ts";
import { z } from "../../src/index.ts";
import { Client } from "../helpers/client.ts";
import { cpuMs } from "../helpers/cpu-time.ts";
import { fixture } from "../helpers/fixture.ts";
import { storeWith } from "../helpers/server.ts";

const model = await preparedModel();

const store = fixture(() => storeWith(model.folder), 600_000);
const server = fixture(() => store.serve("minilm"), 600_000);

async function embed(texts: readonly string[]): Promise<number[][]> {
  const { status, outputs, error_message } = await server.client.predict(texts.map((text) => ({ text })));
  if (status !== "success") throw new Error(error_message);
  return (outputs ?? []).map(({ embedding }) => {
    if (!Array.isArray(embedding)) throw new Error("there is no embedding");
    return embedding;
  });
}

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, value, i) => sum + value * (y[i] ?? 0), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** Cosine similarity of each embedding to the original's embedding. */
function similarities(embeddings: readonly number[][], references: readonly Reference[]): number[] {
  expect(embeddings.length).toBe(references.length);
  return embeddings.map((embedding, i) => cosine(embedding, references[i]?.embedding ?? []));
}

/** The values in another order, the same in each run, so that neighbours differ in length. */
function shuffled<T>(values: readonly T[]): T[] {
  return values.map((_, i) => values[(i * 17 + 3) % values.length]).filter((value) => value !== undefined);
}

describe("50 sentences of 1 to 250 words have the original's embeddings, to a cosine of 0.9999,", () => {
  test("each alone", async () => {
    const words = model.sentences.map(({ text }) => text.split(/\s+/).length);
    expect([words.length, words[0], words.at(-1)]).toEqual([50, 1, 250]);
    const embeddings: number[][] = [];
    for (const { text } of model.sentences) embeddings.push(...(await embed([text])));
    expect(Math.min(...similarities(embeddings, model.sentences))).toBeGreaterThanOrEqual(0.9999);
  }, 120_000);

  test("all in one request, mixed", async () => {
    const mixed = shuffled(model.sentences);
    expect(new Set(mixed).size).toBe(50);
    const embeddings = await embed(mixed.map(({ text }) => text));
    expect(Math.min(...similarities(embeddings, mixed))).toBeGreaterThanOrEqual(0.9999);
  }, 120_000);
});

test("texts of any kind have the original's embeddings: empty, very long, other scripts, emoji, control characters", async () => {
  const embeddings = await embed(model.others.map(({ text }) => text));
  expect(Math.min(...similarities(embeddings, model.others))).toBeGreaterThanOrEqual(0.9999);
}, 120_000);

test("a text is split into the original's word pieces, at most 256", async () => {
  const wordPieces = new WordPieces(await Bun.file(join(model.folder, "tokenizer.json")).json());
  for (const { text, ids } of [...model.sentences, ...model.others]) {
    const pieces = wordPieces.of(text);
    if (pieces.join() !== ids.join()) expect({ text, pieces }).toEqual({ text, pieces: ids });
  }
  const longest = Math.max(...[...model.sentences, ...model.others].map(({ ids }) => ids.length));
  expect(longest).toBe(256);
});

test("a megabyte of text takes hardly longer than a page, with or without spaces", async () => {
  const wordPieces = new WordPieces(await Bun.file(join(model.folder, "tokenizer.json")).json());
  for (const text of ["word ".repeat(200_000), "漢字".repeat(500_000), "x".repeat(1e6), "\u200b".repeat(1e6)]) {
    expect(cpuMs(() => expect(wordPieces.of(text).length).toBeLessThanOrEqual(256))).toBeLessThan(1000);
  }
});

test("an input that is not text is refused with its position", async () => {
  for (const [input, pointer] of [
    [{}, "/0/text"],
    [{ text: null }, "/0/text"],
    [{ text: 7 }, "/0/text"],
    [{ text: ["a"] }, "/0/text"],
    [{ text: "a", language: "en" }, "/0/language"],
    ["a", "/0"],
  ] as const) {
    const answer = await server.client.post([input]);
    expect(answer.status).toBe(422);
    expect(await answer.text()).toContain(`"${pointer}"`);
  }
});

describe.each(["/predictions", "/demo"])("POST %s", (path) => {
  /** Embeddings of texts. Each text is given as JSON, which may escape characters. */
  async function embedJson(texts: readonly string[]): Promise<number[][]> {
    const answer = await new Client(server.url, path).post(`[${texts.map((text) => `{"text": ${text}}`).join()}]`, {
      Prefer: "wait",
    });
    const { status, outputs } = z
      .looseObject({ status: z.string(), outputs: z.array(z.object({ embedding: z.array(z.number()) })) })
      .parse(await answer.json());
    expect(status).toBe("success");
    return outputs.map(({ embedding }) => embedding);
  }

  const odd = [
    ["the empty text", '""', '""'],
    ["half a character", '"\\ud800"', '""'],
    ["half a character between words", '"a \\udc00 b"', '"a b"'],
    ["two halves in the wrong order", '"a \\ude00\\ud83d b"', '"a b"'],
    ["a NUL", '"\\u0000"', '""'],
    ["a NUL within a word", '"to\\u0000rch"', '"torch"'],
    ["white space of many kinds", '" \\t\\n\\u00a0\\u3000a\\u2028b"', '"a b"'],
    ["marks that turn the direction of writing", '"\\u202ea\\u202c b\\u200f"', '"a b"'],
    ["escaped and plain emoji", '"\\ud83d\\ude00 👩‍👩‍👧‍👦"', '"😀 👩‍👩‍👧‍👦"'],
    ["text from right to left", '"שלום עולם"', '"\\u05e9\\u05dc\\u05d5\\u05dd \\u05e2\\u05d5\\u05dc\\u05dd"'],
    ["more than the model takes", JSON.stringify("word ".repeat(100_000)), JSON.stringify("word ".repeat(254))],
    ["a megabyte without a space", JSON.stringify("x".repeat(1e6)), JSON.stringify("x".repeat(5e5))],
  ] as const;

  test("reads unusual forms of a text like their normal form, beside a valid input", async () => {
    const [embeddings, plain, [neighbour], [alone]] = await Promise.all([
      embedJson(odd.map(([, text]) => text)),
      embedJson(odd.map(([, , text]) => text)),
      embedJson(['"A torch needs a bracket."']),
      embed(["A torch needs a bracket."]),
    ]);
    for (const [i, [name]] of odd.entries()) {
      expect([name, embeddings[i]?.length, Math.hypot(...(embeddings[i] ?? [])).toFixed(4)]).toEqual([
        name,
        384,
        "1.0000",
      ]);
      if (cosine(embeddings[i] ?? [], plain[i] ?? []) < 0.9999) expect([name, embeddings[i]]).toEqual([name, plain[i]]);
    }
    expect(cosine(neighbour ?? [], alone ?? [])).toBeGreaterThan(0.9999);
  }, 120_000);
});
