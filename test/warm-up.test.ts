/** What a server measures before its first request: the best number of threads, and the time of a forward pass. */
import { describe, expect, test } from "bun:test";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { Runner } from "../src/engine/runner.ts";
import { warmUp } from "../src/engine/warm-up.ts";

/** Milliseconds of a forward pass with `size` items. */
type Device = (size: number, threads: number) => number;

/** Warms up runners on a simulated device. @returns the chosen number of threads and the measured times */
async function warmed(
  device: Device,
  options: { cores?: number; instances?: number; threads?: number; maxBatchSize?: number; fits?: number } = {},
) {
  let nowMs = 0;
  const threadsOf: number[] = [];
  const runners = Array.from({ length: options.instances ?? 1 }, (_, i): Runner => {
    threadsOf[i] = options.threads ?? 1;
    return {
      async run(items) {
        if (items.length > (options.fits ?? Infinity)) throw new SconceError("out_of_memory", "too much");
        nowMs += device(items.length, threadsOf[i] ?? 1);
        return [tensor(new Float32Array(items.length), [items.length])] satisfies Tensor[];
      },
      settle() {},
      async setThreads(threads) {
        threadsOf[i] = threads;
      },
      async dispose() {},
    };
  });
  const result = await warmUp({
    runners,
    inputs: { x: float32() },
    item: undefined,
    maxBatchSize: options.maxBatchSize ?? 8,
    threads: options.threads,
    cores: options.cores ?? 8,
    now: () => nowMs,
  });
  return { ...result, threadsOf, tookMs: nowMs };
}

describe("the number of threads", () => {
  test("is doubled as long as a full batch gets faster", async () => {
    const { threads, threadsOf } = await warmed((size, threads) => (10 * size) / Math.min(threads, 4));
    expect(threads).toBe(4);
    expect(threadsOf).toEqual([4]);
  });

  test("is one if more do not speed up a long forward pass", async () => {
    const { threads, threadsOf } = await warmed((size) => 20 * size);
    expect({ threads, threadsOf }).toEqual({ threads: 1, threadsOf: [1] });
  });

  test("is that of the cores for a long forward pass, and one less for a short one", async () => {
    const perfect =
      (oneMs: number): Device =>
      (size, threads) =>
        (oneMs * size) / threads;
    expect((await warmed(perfect(60), { cores: 8, maxBatchSize: 8 })).threads).toBe(8);
    expect((await warmed(perfect(1), { cores: 8, maxBatchSize: 8 })).threads).toBe(7);
  });

  test("is that of the cores for a long full batch, even if the warm-up skips the batch", async () => {
    const { threads, forwardMs } = await warmed((size, threads) => (33 * size) / threads, {
      cores: 2,
      maxBatchSize: 16,
    });
    expect(threads).toBe(2);
    expect(forwardMs.get(1)).toBe(16.5);
  });

  test("is divided among instances", async () => {
    const { threads, threadsOf } = await warmed((size, threads) => (30 * size) / threads, { instances: 4 });
    expect({ threads, threadsOf }).toEqual({ threads: 2, threadsOf: [2, 2, 2, 2] });
  });
});

test("batch times are measured with the chosen number of threads", async () => {
  const { forwardMs } = await warmed((size, threads) => (8 * size) / threads, { cores: 2, maxBatchSize: 16 });
  expect([...forwardMs]).toEqual([
    [1, 4],
    [16, 64],
  ]);
});

test("a batch that would take too long is not tried", async () => {
  const { forwardMs, tookMs } = await warmed((size) => 400 * size, { maxBatchSize: 64 });
  expect([...forwardMs.keys()]).toEqual([1]);
  expect(tookMs).toBeLessThan(3000);
});

test("the largest batch is halved until one fits in memory; if not even one item fits, that is the error", async () => {
  expect(await warmed((size) => size, { maxBatchSize: 48, fits: 13 })).toMatchObject({ maxBatchSize: 12 });
  await expect(warmed((size) => size, { fits: 0 })).rejects.toThrow("too much");
});
