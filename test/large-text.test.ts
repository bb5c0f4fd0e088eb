/** `LargeText` stores a text as pieces. Every reader gets the whole text, even if several read at the same time. */
import { expect, test } from "bun:test";
import { byteLengthOf, joined, LargeText, listText } from "../src/base/large-text.ts";
import { streamOf } from "../src/http/large-answers.ts";
import { families, largeRecord } from "../src/http/record-json.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { loopTurns } from "./helpers/loop-turns.ts";
import { endOf } from "./helpers/predictions.ts";

/** Texts with characters of one to four bytes, so that a piece ends at every offset within a character. */
const outputs = ["a", '"語"', ...[0, 1, 2, 3].map((n) => `${"b".repeat(n)}${"😀é語".repeat(200_000)}`), "c"];
const members = `"outputs":[${outputs.join(",")}]`;

test("outputs of any size are joined to the same text as in one string", () => {
  const text = listText("outputs", outputs);
  expect(text).toBeInstanceOf(LargeText);
  expect(String(text) === members).toBe(true);
  expect([text.length, byteLengthOf(text)]).toEqual([members.length, Buffer.byteLength(members)]);
  const more = joined(['"a":1', text], ",");
  expect(String(more) === `"a":1,${members}`).toBe(true);
});

test("chunks of stored bytes may end within a character", () => {
  const text = new LargeText(["語", new TextEncoder().encode(members)]);
  expect(String(text) === `語${members}`).toBe(true);
});

test("readers of one record get the whole text", async () => {
  const memory = new MemoryAccount();
  const text = listText("outputs", outputs);
  const record = endOf("a1", { outcome: { status: "success", members: text } });
  const [family] = families;
  if (family === undefined) throw new Error("no family");
  const read = () => new Response(streamOf(() => largeRecord(record, family), memory)).text();
  const [first, second] = await Promise.all([read(), read()]);
  expect(first).toContain(members);
  expect(second === first).toBe(true);
  // Sending replaces the strings of the record by their bytes, so there is no second copy.
  if (!(text instanceof LargeText)) throw new Error("it is large");
  expect(text.pieces.every((piece) => piece instanceof Uint8Array)).toBe(true);
  expect(String(text) === members).toBe(true);
  expect(memory.used).toBe(0);
});

test("one piece is sent per turn of the event loop, however many and however fast the readers are", async () => {
  const memory = new MemoryAccount();
  const text = new LargeText(["a".repeat(5_000_000)]);
  using turns = loopTurns();
  const readers = [1, 2].map(() => new Response(streamOf(() => text, memory)).text());
  const lengths = (await Promise.all(readers)).map(({ length }) => length);
  expect(lengths).toEqual([text.length, text.length]);
  expect(turns.count).toBeGreaterThanOrEqual(2 * text.pieces.length);
});
