/** A latency target limits the size of batches. */
import { expect, test } from "bun:test";
import { LatencyTarget } from "../src/engine/batching/latency-target.ts";
import { Simulation } from "./helpers/simulation.ts";

const durationMs = (size: number) => 2 + size;

/** Keeps 200 items waiting for two seconds. @returns the sizes of the batches */
async function sizesWith(simulation: Simulation): Promise<number[]> {
  for (let ms = 0; ms < 2000; ms += 5) {
    await simulation.clock.advanceTo(ms);
    if (simulation.batcher.length < 200) simulation.add({}, 200 - simulation.batcher.length);
  }
  return simulation.batches.map(({ items }) => items.length);
}

test("the first limit is the largest size of the warm-up whose batch takes half of the target", () => {
  const measured = new Map([1, 8, 16, 32].map((size) => [size, durationMs(size)]));
  expect(new LatencyTarget(40, measured).limit).toBe(16);
  expect(new LatencyTarget(2, measured).limit).toBe(1);
});

test("full batches stay near half of the target, from a low and from a high first limit", async () => {
  for (const measured of [[[1, 3]], [[64, 1]]] as const) {
    const sizes = await sizesWith(new Simulation({ maxBatchSize: 64, latencyTargetMs: 40, measured, durationMs }));
    // A batch of 18 items takes 20 ms.
    for (const size of sizes.slice(40)) expect(size).toBeWithin(15, 20);
  }
});

test("the limit follows a device that becomes slower, and then faster", async () => {
  let slowness = 1;
  const simulation = new Simulation({
    maxBatchSize: 64,
    latencyTargetMs: 40,
    measured: [[64, 1]],
    durationMs: (size) => slowness * durationMs(size),
  });
  await sizesWith(simulation);
  slowness = 2;
  await simulation.clock.drain();
  const before = simulation.batches.length;
  const lane = {};
  for (let i = 0; i < 50; i++) {
    simulation.add(lane, 20);
    await simulation.clock.drain();
  }
  for (const { items } of simulation.batches.slice(before + 20)) expect(items.length).toBeLessThanOrEqual(10);
});

test("one batch that hangs lowers the limit by a tenth", () => {
  const target = new LatencyTarget(40, new Map([[20, 20]]));
  target.ran(1, 60_000);
  expect(target.limit).toBe(18);
});

test("no batch has fewer than one item, however slow the device is, and none has more than the batch size", async () => {
  for (const batchMs of [1000, 0.1]) {
    const simulation = new Simulation({ maxBatchSize: 4, latencyTargetMs: 10, durationMs: () => batchMs });
    simulation.add({}, 100);
    await simulation.clock.drain();
    expect(simulation.done.length).toBe(100);
    expect(Math.max(...simulation.batches.map(({ items }) => items.length))).toBe(batchMs > 10 ? 1 : 4);
  }
});
