/** The server gets ten times the load of its capacity, and clients leave after two to three batch times. */
import { expect, test } from "bun:test";
import { goodputOf } from "./helpers/overloaded-flow.ts";

test.each([
  { batchMs: 320, patienceMs: 1000 },
  { batchMs: 320, patienceMs: 700 },
  { batchMs: 80, patienceMs: 250 },
  { batchMs: 80, patienceMs: 170 },
  { batchMs: 320, patienceMs: 1000, instances: 2 },
])("goodput is 0.9 of the capacity and more ($batchMs ms a batch, $patienceMs ms)", async (each) => {
  expect(await goodputOf({ maxBatchSize: 16, load: 10, seconds: 12, seed: 1, ...each })).toBeGreaterThan(0.9);
});
