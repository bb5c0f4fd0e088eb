/** Which settings the tuner tries, and which it finds best, on a simulated device. */
import { describe, expect, test } from "bun:test";
import { tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { Runner } from "../src/engine/runner.ts";
import { bestOf, settingsToTry, type Tuned, type TunedSetting, tune } from "../src/engine/tuner.ts";
import { seeded } from "./helpers/loads.ts";

/** Milliseconds of a batch with this setting that begins at `atMs`. */
type Device = (setting: TunedSetting & { readonly atMs: number }) => number;

/**
 * Runs the tuner with four runners that share a simulated device. @returns its result, the settings of each batch,
 * and the simulated time
 */
async function tuned(
  device: Device,
  options: { settings: TunedSetting[]; budgetMs?: number; fits?: number; takes?: number },
) {
  let nowMs = 0;
  let used = 1;
  const tried: TunedSetting[] = [];
  const runners = Array.from({ length: 4 }, (_, i): Runner => {
    let threads = 1;
    return {
      async run(items) {
        if (items.length > (options.takes ?? Infinity)) throw new SconceError("run_failed", "another size");
        if (items.length > (options.fits ?? Infinity)) throw new SconceError("out_of_memory", "too much");
        const setting = { batchSize: items.length, instances: used, threads };
        nowMs += device({ ...setting, atMs: nowMs });
        tried.push(setting);
        return [tensor(new Float32Array(items.length), [items.length])];
      },
      settle() {},
      async setThreads(given) {
        threads = given;
        used = i + 1;
      },
      async dispose() {},
    };
  });
  const result = await tune({
    runners,
    item: [],
    settings: options.settings,
    budgetMs: options.budgetMs ?? 10_000,
    now: () => nowMs,
  });
  return { result, tried, tookMs: nowMs };
}

const settings = settingsToTry({ cores: 4, isCpu: true, maxBatchSize: 16, fixed: {} });

describe("settings to try", () => {
  test("are all that the cores allow, without more threads than cores", () => {
    expect(settings.length).toBe(5 * (3 + 2 + 1));
    expect(settings.every(({ instances, threads }) => instances * threads <= 4)).toBe(true);
    expect(new Set(settings.map(({ batchSize }) => batchSize))).toEqual(new Set([1, 2, 4, 8, 16]));
  });

  test("keep settings that are given, and have the largest batch even if it is no power of two", () => {
    const fixed = settingsToTry({ cores: 4, isCpu: true, maxBatchSize: 48, fixed: { instances: 2, threads: 3 } });
    expect(fixed.map(({ batchSize }) => batchSize)).toEqual([1, 2, 4, 8, 16, 32, 48]);
    expect(fixed.every(({ instances, threads }) => instances === 2 && threads === 3)).toBe(true);
  });

  test("do not vary the threads of the CPU if the device is a GPU", () => {
    const onGpu = settingsToTry({ cores: 16, isCpu: false, maxBatchSize: 2, fixed: {} });
    expect(onGpu.every(({ threads }) => threads === 1)).toBe(true);
  });
});

describe("measuring", () => {
  test("gives throughput and batch time of each setting, the fastest first", async () => {
    const { result } = await tuned(({ batchSize, threads }) => (2 + batchSize) / threads, { settings });
    const [first] = result;
    expect(first).toMatchObject({ batchSize: 16, instances: 1, threads: 4 });
    expect(first?.throughput).toBeCloseTo((1000 * 16) / 4.5);
    expect(first?.batchMs).toBeCloseTo(4.5);
    expect(result.map(({ throughput }) => throughput)).toEqual(
      result.map(({ throughput }) => throughput).toSorted((a, b) => b - a),
    );
  });

  test("finds the best setting although another program takes the machine for a while", async () => {
    // For a third of the time, in periods of random length, another program makes batches take 20 times as long.
    const random = seeded(3);
    const spells = Array.from({ length: 400 }, () => random() < 1 / 3);
    const disturbed: Device = ({ batchSize, threads, atMs }) =>
      (spells[Math.floor(atMs / 200) % spells.length] ? 20 : 1) * ((2 + batchSize) / Math.sqrt(threads));
    const { result } = await tuned(disturbed, { settings, budgetMs: 60_000 });
    expect(bestOf(result)).toMatchObject({ batchSize: 16, instances: 1, threads: 4 });
  });

  test("takes about the allowed time, even if batches are long", async () => {
    expect((await tuned(() => 1, { settings, budgetMs: 3000 })).tookMs).toBeWithin(2900, 3300);
    // At the time limit, batches that have begun still end: at most one on each of the four instances.
    const { tookMs, result } = await tuned(() => 700, { settings, budgetMs: 3000 });
    expect(tookMs).toBeLessThan(3000 + 4 * 700);
    expect(result.length).toBeGreaterThan(0);
  });

  test("measures at least one setting, even if the first batches take longer than allowed", async () => {
    const { result } = await tuned(() => 5000, { settings, budgetMs: 1000 });
    expect(result).toMatchObject([settings[0] ?? {}]);
  });

  test("does not begin a batch that would take longer than the remaining time", async () => {
    const { tookMs, result } = await tuned(({ batchSize }) => 400 * batchSize, { settings, budgetMs: 15_000 });
    expect(tookMs).toBeLessThan(15_000);
    expect(result.map(({ batchSize }) => batchSize)).not.toContain(16);
  });

  test("leaves out settings that fail or do not fit in memory, and throws if all do", async () => {
    const { result } = await tuned(({ batchSize }) => 2 + batchSize, { settings, fits: 5 });
    expect(new Set(result.map(({ batchSize }) => batchSize))).toEqual(new Set([1, 2, 4]));
    const few = await tuned(({ batchSize }) => 2 + batchSize, { settings, takes: 9 });
    expect(new Set(few.result.map(({ batchSize }) => batchSize))).toEqual(new Set([1, 2, 4, 8]));
    const broken = tuned(
      () => {
        throw new SconceError("run_failed", "broken");
      },
      { settings },
    );
    await expect(broken).rejects.toThrow("broken");
  });
});

describe("the best setting", () => {
  const of = (batchSize: number, instances: number, threads: number, throughput: number): Tuned => ({
    ...{ batchSize, instances, threads, throughput },
    batchMs: 1,
  });

  test("is the setting with the highest throughput, if the difference is clear", () => {
    expect(bestOf([of(16, 2, 2, 100), of(16, 1, 2, 90)])).toMatchObject({ instances: 2 });
  });

  test("is the simplest among settings that differ only by noise: few instances, few threads, small batches", () => {
    expect(bestOf([of(16, 2, 1, 100), of(16, 1, 2, 98)])).toMatchObject({ instances: 1, threads: 2 });
    expect(bestOf([of(16, 1, 2, 100), of(32, 1, 1, 97)])).toMatchObject({ threads: 1 });
    expect(bestOf([of(32, 1, 1, 100), of(16, 1, 1, 97)])).toMatchObject({ batchSize: 16 });
  });

  test("is undefined if no setting was measured", () => {
    expect(bestOf([])).toBeUndefined();
  });
});
