/**
 * A disk that changes bits of stored predictions: the store returns each value right, or as missing, or refuses it
 * with a coded error; never a wrong value. SCONCE_ROT_TRIALS sets the number of changed bits.
 */
import { expect, spyOn, test } from "bun:test";
import { cp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../../src/base/errors.ts";
import { log } from "../../src/base/log.ts";
import type { PredictionRecord } from "../../src/server/predictions/record.ts";
import { failureOf } from "../helpers/failure.ts";
import { seeded } from "../helpers/loads.ts";
import { asText, endOf, largeEndOf, requestOf } from "../helpers/predictions.ts";
import { open } from "../helpers/sqlite.ts";
import { tempDir } from "../helpers/temp-dir.ts";

const TRIALS = Number(process.env.SCONCE_ROT_TRIALS ?? 40);
const silent = Object.assign(() => {}, { raw() {} });

const large = "x".repeat(70_000);
const unfinished = Array.from({ length: 12 }, (_, i) => `a-unfinished-${i}`);
const ended = Array.from({ length: 12 }, (_, i) => `a-ended-${i}`);
const packed = Array.from({ length: 40 }, (_, i) => `a-packed-${i}`);

const requests = new Map(
  unfinished.map((id, i) => [id, requestOf(id, i === 0 ? { body: JSON.stringify([id, large]) } : {})]),
);
const outcomes = new Map([
  ...ended.map(
    (id, i) => [id, i === 0 ? largeEndOf(id, 70_000) : endOf(id, { kind: "demo", logs: `log of ${id}` })] as const,
  ),
  ...packed.map((id) => [id, endOf(id)] as const),
]);

test(`after each of ${TRIALS} single changed bits, the store never returns a wrong value`, async () => {
  await using dir = await tempDir();
  const full = dir.join("full");
  const store = await open({ path: full });
  for (const request of requests.values()) await store.create(request);
  for (const id of ended) {
    await store.create(requestOf(id));
    await store.flush();
    const record = outcomes.get(id);
    if (record !== undefined) store.finish(record);
  }
  for (const id of packed) {
    const record = outcomes.get(id);
    if (record !== undefined) store.finish(record);
  }
  await store.flush();
  await store.close();
  const seed = Date.now() % 1_000_000;
  const random = seeded(seed);
  const counts = { refused: 0, right: 0, missing: 0, named: 0, failed: 0 };
  using errors = spyOn(log, "error").mockImplementation(silent);
  using _warnings = spyOn(log, "warn").mockImplementation(silent);
  for (let trial = 0; trial < TRIALS; trial++) {
    const copy = dir.join(`copy-${trial}`);
    await cp(full, copy, { recursive: true });
    const what = await flipBit(copy, random);
    await readAll(copy, counts).catch((cause) => {
      throw new Error(`trial ${trial} of seed ${seed}: ${what}`, { cause });
    });
  }
  console.log(`seed ${seed}: ${JSON.stringify(counts)}, ${errors.mock.calls.length} logged`);
  expect(counts.right).toBeGreaterThan(0);
}, 600_000);

/**
 * Reads all predictions of the changed files, and counts right, missing and damaged values and coded errors. @throws if
 * a value is wrong, or an error has no code
 */
async function readAll(path: string, counts: Record<"refused" | "right" | "missing" | "named" | "failed", number>) {
  let store: Awaited<ReturnType<typeof open>>;
  try {
    store = await open({ path });
  } catch (error) {
    if (!(error instanceof SconceError) || error.code !== "predictions_unusable") throw error;
    counts.refused += 1;
    return;
  }
  try {
    for (const [id, expected] of outcomes) {
      let found: PredictionRecord | undefined;
      try {
        found = asText(await store.get(id));
      } catch (error) {
        if (!(error instanceof SconceError) || error.code !== "predictions_unusable") throw error;
        counts.named += 1;
        continue;
      }
      if (found === undefined) counts.missing += 1;
      else {
        expect(found).toMatchObject({ ...expected, digest: undefined });
        counts.right += 1;
      }
    }
    try {
      for await (const { id, body, isDamaged } of store.takeOver(() => true)) {
        if (isDamaged) counts.failed += 1;
        else {
          expect(Buffer.from(body).toString()).toBe(String(requests.get(id)?.body));
          counts.right += 1;
        }
      }
    } catch (error) {
      if (!(error instanceof SconceError) || error.code !== "predictions_unusable") throw error;
      counts.named += 1;
    }
  } finally {
    await store.close().catch(() => {});
  }
}

/** Flips one random bit of one file. @returns the file, byte and bit */
async function flipBit(folder: string, random: () => number): Promise<string> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const files = names.map(({ parentPath, name }) => join(parentPath, name)).filter((path) => Bun.file(path).size > 0);
  // Two of three flips are in the database, which has the rows of most predictions; the others are in any file.
  const path = random() < 0.67 ? join(folder, "predictions.db") : (files[Math.floor(random() * files.length)] ?? "");
  const bytes = await Bun.file(path).bytes();
  const at = Math.floor(random() * bytes.length);
  const bit = Math.floor(random() * 8);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
  await Bun.write(path, bytes);
  return `${path.slice(folder.length + 1)}, byte ${at}, bit ${bit}`;
}

test("lone surrogates, which UTF-8 cannot encode, and null characters are not taken for damage", async () => {
  await using dir = await tempDir();
  const logs = "\ud800 \0 \ufeff";
  const store = await open(dir);
  await store.create(requestOf("a-odd"));
  await store.flush();
  store.finish(endOf("a-odd", { logs: `\ufeff${logs}` }));
  await store.close();
  const next = await open(dir);
  expect((await next.get("a-odd"))?.outcome?.status).toBe("success");
  await next.close();
});

test("an outcome in a changed file is refused with an error that names the store", async () => {
  await using dir = await tempDir();
  const store = await open(dir);
  await store.create(requestOf("a-large"));
  await store.flush();
  store.finish(largeEndOf("a-large", 70_000));
  await store.close();
  const folder = dir.join("predictions.db-files");
  const path = join(folder, (await readdir(folder))[0] ?? "");
  const bytes = await Bun.file(path).bytes();
  bytes[1000] = (bytes[1000] ?? 0) ^ 1;
  await Bun.write(path, bytes);
  const next = await open(dir);
  const { code, message } = await failureOf(next.get("a-large"));
  expect(code).toBe("predictions_unusable");
  expect(message).toContain("the disk changed the file a-large.");
  await next.close();
});
