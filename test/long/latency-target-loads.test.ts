/**
 * Compares a latency target with the best fixed setting for each load, which a grid search finds in the same
 * simulation.
 */
import { describe, expect, test } from "bun:test";
import { bestFixed, bursts, type Curve, poisson, serveLoad, serveLoads, steps } from "../helpers/loads.ts";

const maxBatchSize = 64;
const grid = [8, 16, 32, 64].flatMap((size) =>
  [0, 2, 5, 10].map((maxQueueDelayMs) => ({ maxBatchSize: size, maxQueueDelayMs })),
);
const devices: Readonly<Record<string, Curve>> = {
  "takes 8 ms for a batch and 0.5 ms for an item": (size) => 8 + 0.5 * size,
  "works in steps of 8 items": (size) => 6 + 2 * Math.ceil(size / 8),
};
/** Arrival rates, as shares of the throughput with the largest batches. */
const levels = { "light load": 0.1, "medium load": 0.4, "near saturation": 0.85, overload: 1.3 };
const kinds = { poisson, bursts, steps };
const cases = Object.entries(kinds).flatMap(([kind, make]) =>
  Object.entries(levels).map(([level, part]) => [kind, level, make, part] as const),
);
/**
 * Maximum ratio of the 99th percentile of latency to the 99th percentile with the best fixed setting. Five loads
 * together vary a little by chance; a single load varies by a tenth and more.
 */
const MAX_P99_RATIO = 1.05;

describe.each(Object.entries(devices))("on a device that %s", (_, curve) => {
  const capacity = maxBatchSize / curve(maxBatchSize);
  const latencyTargetMs = 3 * curve(maxBatchSize);

  test.each(cases)(
    "%s, %s: throughput within 5 %% of the best fixed setting, 99th percentile no worse",
    async (...[, , make, part]) => {
      const load = (seed: number) => make(part * capacity, { count: 4000, seed });
      // The best fixed setting is found with the load of seed 1, and compared with the target on five other loads.
      const loads = [2, 3, 4, 5, 6].map(load);
      const best = await serveLoads(loads, await bestFixed(load(1), grid, curve), curve);
      const adaptive = await serveLoads(loads, { maxBatchSize, latencyTargetMs }, curve);
      expect(adaptive.throughput).toBeGreaterThanOrEqual(0.95 * best.throughput);
      expect(adaptive.p99Ms).toBeLessThanOrEqual(MAX_P99_RATIO * best.p99Ms);
    },
  );

  test.each([1.1, 1.5, 3])(
    "a target of %d times the largest batch's time does not reduce throughput under overload",
    async (factor) => {
      const load = poisson(1.3 * capacity, { count: 4000, seed: 7 });
      const served = await serveLoad(
        load,
        { maxBatchSize, latencyTargetMs: factor * curve(maxBatchSize) },
        { curve, seed: 8 },
      );
      expect(served.throughput).toBeGreaterThan(0.95 * 1000 * capacity);
    },
  );

  test.each([1, 3])("with %d runners the 99th percentile meets the target if that is possible", async (runners) => {
    const load = bursts(0.5 * runners * capacity, { count: 4000, seed: 9 });
    const { p99Ms } = await serveLoad(load, { maxBatchSize, latencyTargetMs, runners }, { curve, seed: 10 });
    expect(p99Ms).toBeLessThan(latencyTargetMs);
  });
});

test("the comparison itself detects a bad fixed setting", async () => {
  const curve: Curve = (size) => 8 + 0.5 * size;
  const loads = [2, 3, 4].map((seed) => poisson(0.85 * (64 / curve(64)), { count: 4000, seed }));
  const adaptive = await serveLoads(loads, { maxBatchSize, latencyTargetMs: 120 }, curve);
  for (const setting of [{ maxBatchSize: 8 }, { maxBatchSize, maxQueueDelayMs: 40 }]) {
    expect((await serveLoads(loads, setting, curve)).p99Ms).toBeGreaterThan(1.05 * adaptive.p99Ms);
  }
});
