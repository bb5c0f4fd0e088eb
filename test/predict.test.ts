/** `predict` replaces the forward pass: a model with several networks, and modules that keep a state. */
import { describe, expect, test } from "bun:test";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Image } from "../src/author/media.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

const digits = fileURLToPath(new URL("../examples/digits", import.meta.url));

const dir = fixture(tempDir);
const store = fixture(async () => {
  // The model `page` gets the weights of the example digits, and imports a file of the example.
  const folder = join(dir.path, "test/models/page");
  await cp(modelFolder("page"), folder, { recursive: true });
  await cp(join(digits, "digits.pt2"), join(folder, "reader.pt"));
  await cp(join(digits, "canonicalize.ts"), join(dir.path, "examples/digits/canonicalize.ts"));
  return storeWith(folder, "meter");
});
const page = fixture(() => store.serve("page"));
const meter = fixture(() => store.serve("meter"));

/** A data URI of a white page that shows digits of the example side by side. */
async function pageOf(names: readonly string[], height: number): Promise<string> {
  const gap = 12;
  const width = names.length * (height + gap) + gap;
  const canvas = new Uint8Array(width * (height + 2 * gap)).fill(255);
  for (const [i, name] of names.entries()) {
    const bytes = await Bun.file(join(digits, `samples/${name}.png`)).bytes();
    const picture = new Image({ bytes, mediaType: "image/png" });
    const { data } = await picture.pixels({ width: height, height, channels: 1 });
    for (let y = 0; y < height; y++) {
      canvas.set(data.subarray(y * height, (y + 1) * height), (y + gap) * width + gap + i * (height + gap));
    }
  }
  const image = await Image.fromPixels({ data: canvas, width, height: height + 2 * gap, channels: 1 });
  return image.toDataUri();
}

describe("a model with two networks, one that finds digits and one that reads them,", () => {
  test("reads the digits of pages, any number on each, in order", async () => {
    const pages = await Promise.all([
      pageOf(["3", "7", "9", "4"], 40),
      pageOf([], 40),
      pageOf(["9"], 56),
      pageOf(["4", "4"], 40),
    ]);
    const { outputs } = await page.client.predict(pages.map((each) => ({ page: each })));
    expect(outputs?.map((output) => output.digits)).toEqual([[3, 7, 9, 4], [], [9], [4, 4]]);
  });

  test("runs pages of one size in one batch through both networks", async () => {
    const one = await pageOf(["3", "7"], 40);
    const other = await pageOf(["9", "4"], 40);
    // Pages are decoded one by one. With the long queue delay, the first page waits for the others.
    await using patient = await store.serve("page", { maxQueueDelay: 60_000 });
    const { outputs } = await patient.client.predict([one, other, other, one].map((each) => ({ page: each })));
    expect(outputs?.map((output) => output.digits)).toEqual([
      [3, 7],
      [9, 4],
      [9, 4],
      [3, 7],
    ]);
    expect(await patient.client.metric("sconce_batch_size_count")).toBe(1);
  });
});

describe("a module with state", () => {
  test("receives a signal in pieces: each level depends on all earlier pieces of its signal, and on no other signal", async () => {
    const loud = Array.from({ length: 16 }, () => 1);
    const silent = Array.from({ length: 8 }, () => 0);
    const { outputs } = await meter.client.predict([
      { samples: loud },
      { samples: silent },
      { samples: loud.slice(0, 6) },
    ]);
    const levels = (samples: readonly number[]) => expectedLevels(samples, 8);
    for (const [i, samples] of [loud, silent, loud.slice(0, 6)].entries()) {
      const given = outputs?.[i]?.levels;
      if (!Array.isArray(given)) throw new Error("there are no levels");
      expect(given.length).toBe(Math.ceil(samples.length / 4));
      for (const [at, level] of levels(samples).entries()) expect(given[at]).toBeCloseTo(level, 5);
      expect(outputs?.[i]?.samples).toBe(samples.length);
    }
  });

  test("keeps concurrent predictions separate", async () => {
    const signals = Array.from({ length: 40 }, (_, i) =>
      Array.from({ length: 1 + ((i * 7) % 33) }, (_, at) => ((i + at) % 5) / 4),
    );
    const predictions = await Promise.all(signals.map((samples) => meter.client.predict([{ samples, rate: 16 }])));
    for (const [i, { outputs }] of predictions.entries()) {
      const given = outputs?.[0]?.levels;
      if (!Array.isArray(given)) throw new Error(JSON.stringify(predictions[i]));
      for (const [at, level] of expectedLevels(signals[i] ?? [], 16).entries()) expect(given[at]).toBeCloseTo(level, 5);
    }
  });

  test("receives numbers and strings: sampling rate and unit change the result", async () => {
    const samples = [1, 1, 1, 1];
    const { outputs } = await meter.client.predict([
      { samples, rate: 8 },
      { samples, rate: 8000 },
      { samples, rate: 8, unit: "decibel" },
    ]);
    const [slow, fast, decibel] = (outputs ?? []).map(({ levels }) =>
      Number(Array.isArray(levels) ? levels[0] : Number.NaN),
    );
    expect(fast).toBeLessThan(Number(slow) / 100);
    expect(decibel).toBeCloseTo(10 * Math.log10(Number(slow)), 4);
  });

  test("fails only the item for which it raises an error", async () => {
    const good = { samples: [1, 1, 1, 1] };
    const { status, errors, partial_outputs } = await meter.client.predict([good, { ...good, unit: "nothing" }, good]);
    expect({ status, errors }).toEqual({
      status: "failed",
      errors: [{ index: 1, message: "the model failed in predict" }],
    });
    expect(partial_outputs?.map((output) => output !== null)).toEqual([true, false, true]);
  });
});

/** Levels by the formula of meter.pt: squared samples with exponential decay, with a time constant of half a second. */
function expectedLevels(samples: readonly number[], rate: number): number[] {
  const weight = Math.exp(-1 / (0.5 * rate));
  const levels: number[] = [];
  let level = 0;
  for (const [i, sample] of samples.entries()) {
    level = level * weight + sample * sample * (1 - weight);
    if (i % 4 === 3 || i === samples.length - 1) levels.push(level);
  }
  return levels;
}
