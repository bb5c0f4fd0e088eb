/** Goodput of a server that gets more load than it can serve, from clients that leave after a time. */
import { expect, test } from "bun:test";
import { goodputOf } from "./helpers/overloaded-flow.ts";

test.each([
  { load: 10, batchMs: 320, patienceMs: 1000 },
  { load: 10, batchMs: 320, patienceMs: 700 },
  { load: 10, batchMs: 80, patienceMs: 250 },
  { load: 1.5, batchMs: 80, patienceMs: 2000 },
  { load: 10, batchMs: 320, patienceMs: 1000, instances: 2 },
  { load: 10, batchMs: 320, patienceMs: 1000, saysSo: true },
  { load: 10, batchMs: 320, patienceMs: 700, saysSo: true },
  { load: 10, batchMs: 320, patienceMs: 5000, saysSo: true },
  { load: 1.5, batchMs: 80, patienceMs: 2000, saysSo: true },
  { load: 10, batchMs: 320, patienceMs: 1000, instances: 2, saysSo: true },
])(
  "goodput is 0.9 of the capacity and more ($load times the capacity, $batchMs ms a batch, $patienceMs ms, said: $saysSo)",
  async (each) => {
    expect(await goodputOf({ maxBatchSize: 16, seconds: 12, seed: 1, ...each })).toBeGreaterThan(0.9);
  },
);
