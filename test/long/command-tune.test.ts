/** `sconce tune` measures real models. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { peekOptions } from "../../src/cli/command-line/command.ts";
import { serveOptions } from "../../src/server/config.ts";
import { cli } from "../helpers/cli.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";
import { modelFolder, storeWith, type TestStore } from "../helpers/server.ts";
import { tempDir } from "../helpers/temp-dir.ts";

const freeSizes = '{ inputs: { x: float32("n"), steps: int64() }, outputs: { y: float32("n"), together: int64() } }';

let store: TestStore;

beforeAll(async () => {
  await using dir = await tempDir();
  const small = await writeModel(dir, modelText({ tensors: freeSizes, example: undefined }));
  store = await storeWith(join(import.meta.dir, "../../examples/digits"), modelFolder("shapes"), small);
});

afterAll(() => store[Symbol.asyncDispose]());

/** Repeats `sconce tune` with more time until it has measured several settings: a busy machine measures fewer. */
async function tunedSeveral(model: string): ReturnType<typeof tuned> {
  for (let seconds = 1.5; ; seconds *= 4) {
    const result = await tuned(model, "--seconds", String(seconds));
    if (result.rows.length > 1 || seconds > 20) return result;
  }
}

/**
 * Runs `sconce tune`. @returns the rows of its table as objects with the column names as keys, and the options that
 * it proposes
 */
async function tuned(...args: string[]) {
  const env = { SCONCE_HOME: store.home };
  const { code, stdout, stderr } = await cli(["tune", "--seconds", "1.5", ...args], { env });
  const [head = "", ...lines] = stdout.trimEnd().split("\n");
  const words = head.split(/ {2,}/);
  const rows = lines
    .slice(0, -2)
    .map((line) => Object.fromEntries(line.split(/ {2,}/).map((cell, i) => [words[i], Number(cell)])));
  return { code, stderr, rows, flags: lines.at(-1) ?? "" };
}

test("prints the fastest setting first, and proposes the options of serve for one of the fastest", async () => {
  const { code, rows, flags, stderr } = await tunedSeveral("digits");
  expect(code, stderr).toBe(0);
  const rates = rows.map((row) => row["ITEMS/S"] ?? Number.NaN);
  expect(rates.length).toBeGreaterThan(1);
  expect(rates).toEqual(rates.toSorted((a, b) => b - a));
  const { batchSize, instances, threads } = peekOptions(flags.split(" "), serveOptions);
  const chosen = rows.find(
    (row) => row["BATCH SIZE"] === batchSize && row.INSTANCES === instances && row.THREADS === threads,
  );
  expect(chosen?.["ITEMS/S"]).toBeGreaterThanOrEqual(0.94 * (rates[0] ?? Number.NaN));
  expect(stderr).toMatch(/Trying \d+ settings on cpu for \d+(\.\d)? s/);
  expect(stderr).not.toContain("Listening");
});

test("proposes a setting within the latency target, and does not vary given options", async () => {
  const { rows, flags } = await tuned("digits", "--latency-target", "10000", "--threads", "1", "--instances", "1");
  expect(rows.every((row) => row.THREADS === 1 && row.INSTANCES === 1)).toBe(true);
  expect(flags).toEndWith("--instances 1 --threads 1");
  const out = await tuned("digits", "--latency-target", "0.1", "--threads", "1", "--instances", "1");
  expect(out.stderr).toContain("No setting meets the target of 0.1 ms: the last line has the closest one");
  const shortest = Math.min(...out.rows.map((row) => row["LATENCY MS"] ?? Number.NaN));
  const closest = out.rows.filter((row) => row["LATENCY MS"] === shortest);
  expect(closest.map((row) => `--batch-size ${row["BATCH SIZE"]} --instances 1 --threads 1`)).toContain(out.flags);
});

test("measures a model with free sizes by its example, and refuses such a model without an example", async () => {
  expect((await tunedSeveral("shapes")).rows.length).toBeGreaterThan(1);
  const { code, stderr } = await tuned("small");
  expect(code).toBe(1);
  expect(stderr).toEndWith("sconce: sizes of the model's inputs are free: declare an example to tune it with\n");
});
