/** A latency target decides how large a batch is and when it starts. */
import { expect, test } from "bun:test";
import { Simulation } from "./helpers/simulation.ts";

/** A simulation with a latency target that has learned how long a batch of each size from 1 to 64 takes. */
function taught(options: { target: number; curve?: (size: number) => number; runners?: number }) {
  const durationMs = options.curve ?? ((size: number) => 8 + 0.5 * size);
  const simulation = new Simulation({
    maxBatchSize: 64,
    latencyTargetMs: options.target,
    durationMs,
    ...(options.runners === undefined ? {} : { runners: options.runners }),
  });
  for (let round = 0; round < 50; round++) {
    for (let size = 1; size <= 64; size++) simulation.target?.ran(size, durationMs(size));
  }
  return simulation;
}

const sizesOf = (simulation: Simulation) => simulation.batches.map(({ items }) => items.length);

test("a batch has at most as many items as its oldest item allows", async () => {
  const simulation = taught({ target: 30 });
  simulation.add({}, 60);
  // A batch of 44 items takes 30 ms (8 + 0.5 · 44), the whole target.
  expect(sizesOf(simulation)[0]).toBeWithin(40, 45);
  await simulation.clock.drain();
  expect(simulation.done.length).toBe(60);
});

test("the age of the oldest item and the rest of the running batch count against the target", async () => {
  const simulation = taught({ target: 40 });
  simulation.add({}, 10);
  await simulation.clock.advanceTo(3);
  simulation.add({}, 50);
  // The first batch of 10 runs from 0 to 13 ms. The items of the second batch arrive at 3 ms, so at 13 ms they have
  // used 10 ms of the target's 40 ms. A batch of 44 items fills the other 30 ms: 8 + 0.5 · 44.
  await simulation.clock.drain();
  expect(sizesOf(simulation)[1]).toBeWithin(40, 45);
});

test("if no batch size can meet the target, the device runs at full throughput", async () => {
  const simulation = taught({ target: 30 });
  for (let ms = 0; ms < 200; ms++) {
    await simulation.clock.advanceTo(ms);
    simulation.add({}, 5);
  }
  await simulation.clock.drain();
  const sizes = sizesOf(simulation);
  expect(sizes.slice(2, -1).every((size) => size === 64)).toBe(true);
});

test("if even a batch of one item misses the target, all ready items run at once", () => {
  const simulation = taught({ target: 1 });
  simulation.add({}, 20);
  expect(sizesOf(simulation)).toEqual([20]);
});

test("if batch times grow in steps, a batch fills a step, and the rest joins later items", async () => {
  const simulation = taught({ target: 500, curve: (size) => 4 + 6 * Math.ceil(size / 16) });
  for (let ms = 0; ms < 200; ms++) {
    await simulation.clock.advanceTo(ms);
    simulation.add({}, 1);
  }
  await simulation.clock.drain();
  expect(sizesOf(simulation).filter((size) => size > 16 && size < 22)).toEqual([]);
});

test("a lone item on an idle device does not wait", async () => {
  const simulation = taught({ target: 500 });
  for (let ms = 0; ms < 1000; ms += 100) {
    await simulation.clock.advanceTo(ms);
    simulation.add({}, 1);
  }
  await simulation.clock.drain();
  expect(simulation.batches.every(({ items: [item], startedAtMs }) => item?.readyAtMs === startedAtMs)).toBe(true);
});

test("once the policy has seen bursts, the first item of a burst waits for the others, and no longer", async () => {
  const simulation = taught({ target: 500 });
  for (let burst = 0; burst < 30; burst++) {
    for (let i = 0; i < 10; i++) {
      await simulation.clock.advanceTo(100 * burst + 0.1 * i);
      simulation.add({}, 1);
    }
  }
  await simulation.clock.drain();
  const last = simulation.batches.at(-1);
  expect(last?.items.length).toBe(10);
  expect((last?.startedAtMs ?? 0) - 2900).toBeLessThan(3);
  // Before it had seen bursts, the policy ran the first item alone.
  expect(sizesOf(simulation)[0]).toBe(1);
});

test("the wait for further items never makes the oldest item miss the target", async () => {
  const simulation = taught({ target: 14 });
  for (let burst = 0; burst < 30; burst++) {
    for (let i = 0; i < 10; i++) {
      await simulation.clock.advanceTo(100 * burst + 0.5 * i);
      simulation.add({}, 1);
    }
  }
  await simulation.clock.drain();
  const [first] = simulation.batches.filter(({ startedAtMs }) => startedAtMs >= 2900);
  expect((first?.endedAtMs ?? 0) - 2900).toBeLessThanOrEqual(14);
});

test("once it is known that no more items come, nothing waits for the target", async () => {
  const simulation = taught({ target: 500 });
  for (let burst = 0; burst < 30; burst++) {
    await simulation.clock.advanceTo(100 * burst);
    for (let i = 0; i < 10; i++) {
      await simulation.clock.advanceTo(100 * burst + 0.1 * i);
      simulation.add({}, 1);
    }
  }
  await simulation.clock.advanceTo(3000);
  simulation.batcher.hurry();
  simulation.add({}, 1);
  expect(simulation.batches.at(-1)?.startedAtMs).toBe(3000);
});
