/** The tokenizer package of docs/declare.md gives the ids of Python's tokenizers, but for the differences named there. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { Tokenizer } from "@huggingface/tokenizers";
import { z } from "zod";
import { likeTheOriginal } from "../examples/minilm/word-pieces.ts";

const packed = z.string().parse(await Bun.file(join(import.meta.dir, "data/token-ids.json")).json());
const { strings, kinds } = z
  .object({
    strings: z.array(z.string()),
    kinds: z.record(z.string(), z.object({ tokenizer: z.looseObject({}), ids: z.array(z.array(z.int())) })),
  })
  .parse(JSON.parse(inflateSync(Buffer.from(packed, "base64")).toString()));

/** The strings of which the ids differ from Python's. @param prepare changes each string first */
function different(kind: string, prepare = (text: string) => text): string[] {
  const { tokenizer, ids } = kinds[kind] ?? { tokenizer: {}, ids: [] };
  const own = new Tokenizer(tokenizer, {});
  return strings.filter((text, i) => own.encode(prepare(text)).ids.join() !== ids[i]?.join());
}

test("2,000 strings have the ids of a tokenizer of bytes, as of GPT-2", () => {
  expect(strings).toHaveLength(2000);
  expect(different("GPT-2")).toEqual([]);
});

test("strings have the ids of SentencePiece, but where two ways to cut a word have equal scores", () => {
  const others = different("SentencePiece");
  expect(others.length).toBeLessThan(20);
  // Python has "0" and "00", the package "00" and "0".
  expect(others.filter((text) => !text.includes("000"))).toEqual([]);
});

test("strings have the ids of BERT after likeTheOriginal, but for marks that Unicode has added since", () => {
  const others = different("BERT", likeTheOriginal);
  expect(others.length).toBeLessThan(10);
  expect(others.filter((text) => !/[\p{Mn}\p{Cn}]/u.test(text))).toEqual([]);
  // Without likeTheOriginal, sigmas at the ends of words and rare Chinese characters differ, too.
  const unprepared = different("BERT").filter((text) => !others.includes(text));
  expect(unprepared.filter((text) => !/[Σ\u{20000}-\u{2FA1F}]/u.test(text))).toEqual([]);
});
