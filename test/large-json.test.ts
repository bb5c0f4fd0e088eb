/** Writing large outputs as JSON yields to the event loop, and gives the text of JSON.stringify. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { withholding } from "../src/author/withheld-files.ts";
import * as z from "../src/author/z.ts";
import { LoopWork } from "../src/base/loop-work.ts";
import { file, ModelFile, tensor } from "../src/index.ts";
import { isLarge, LargeJson, piecesOfJson } from "../src/pipeline/large-json.ts";
import { loopTurns } from "./helpers/loop-turns.ts";

const value = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.array(fc.float(), { maxLength: 40 }),
  fc.array(fc.array(fc.integer(), { maxLength: 9 }), { maxLength: 9 }),
  fc.dictionary(fc.string(), fc.oneof(fc.constant(undefined), fc.date({ noInvalidDate: true }), fc.array(fc.double()))),
  fc.array(fc.oneof(fc.constant(undefined), fc.date({ noInvalidDate: true }), fc.string())),
  fc.array(fc.integer(), { maxLength: 30 }).map((list) => ({ toJSON: () => list })),
);

test("the pieces form the text of JSON.stringify", () => {
  fc.assert(
    fc.property(value, fc.integer({ min: 1, max: 12 }), (given, max) => {
      expect([...piecesOfJson(given, max)].join("")).toBe(JSON.stringify(given));
    }),
    { numRuns: 300 },
  );
});

test("lists and tensors of a hundred thousand numbers count as large; bytes and short lists do not", () => {
  const flat = new Array(100_000).fill(0.5);
  const nested = Array.from({ length: 100 }, () => new Array(1000).fill(1));
  const row = tensor(new Float32Array(100_000), [100, 1000]);
  for (const large of [flat, { y: flat }, { a: 1, b: { c: nested } }, { row }]) expect(isLarge(large)).toBe(true);
  for (const small of [1, null, { y: flat.slice(0, 10) }, new Uint8Array(1e6), "n".repeat(1e6), { blob: new Blob() }])
    expect(isLarge(small)).toBe(false);
});

test("while four large outputs wait for their texts, no further output is made", async () => {
  const json = new LargeJson();
  const turns = new LoopWork(() => json.isFull);
  const list = new Array(50_000).fill(0.5);
  let [made, most, ended] = [0, 0, 0];
  const all = Array.from({ length: 12 }, () => Promise.withResolvers<void>());
  for (const each of all) {
    turns.add(() => {
      made += 1;
      most = Math.max(most, made - ended);
      void json.text(list).then(() => {
        ended += 1;
        each.resolve();
      });
    });
  }
  await Promise.all(all.map(({ promise }) => promise));
  expect([made, most]).toEqual([12, 4]);
});

test("while large texts are written one after another, the event loop turns", async () => {
  const json = new LargeJson();
  const list = Array.from({ length: 300_000 }, (_, i) => i / 7);
  using turns = loopTurns();
  const texts = await Promise.all([json.text({ list }), json.text(list)]);
  expect(texts.map((pieces) => String(Buffer.concat(pieces)))).toEqual([
    JSON.stringify({ list }),
    JSON.stringify(list),
  ]);
  expect(turns.count).toBeGreaterThan(4);
});

test("large files are written part by part, as their data URIs", async () => {
  const mediaType = "text/plain;charset=utf-8";
  const files = [1_000_000, 700_001, 10].map(
    (size) => new ModelFile({ bytes: new Uint8Array(size).fill(size), mediaType }),
  );
  const value = { files, more: "語" };
  expect(isLarge(value)).toBe(true);
  const schema = z.object({ files: z.array(file()), more: z.string() });
  const { made, files: withheld } = withholding(() => z.encode(schema, value));
  expect(JSON.stringify(made).length).toBeLessThan(1000);
  const pieces = await new LargeJson().text(made, withheld);
  expect(String(Buffer.concat(pieces)) === JSON.stringify(z.encode(schema, value))).toBe(true);
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(500_000);
});
