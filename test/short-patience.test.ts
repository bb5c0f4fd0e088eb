/** The server gets more load than it can serve, and clients leave after two to three times the duration of a batch. */
import { expect, test } from "bun:test";
import { goodputOf } from "./helpers/overloaded-flow.ts";

test.each([
  { load: 10, batchMs: 320, patienceMs: 1000 },
  { load: 10, batchMs: 320, patienceMs: 700 },
  { load: 10, batchMs: 80, patienceMs: 250 },
  // These clients are less patient than real ones, because the simulated server spends no time beside its batches.
  { load: 10, batchMs: 80, patienceMs: 150 },
  { load: 3, batchMs: 80, patienceMs: 170 },
  { load: 1.5, batchMs: 80, patienceMs: 200 },
  { load: 10, batchMs: 320, patienceMs: 1000, instances: 2 },
])(
  "goodput is 0.9 of the capacity and more ($load times the capacity, $batchMs ms a batch, $patienceMs ms)",
  async (each) => {
    expect(await goodputOf({ maxBatchSize: 16, seconds: 12, seed: 1, ...each })).toBeGreaterThan(0.9);
  },
);
