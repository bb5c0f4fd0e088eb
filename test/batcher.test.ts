import { describe, expect, test } from "bun:test";
import { cpuMs } from "./helpers/cpu-time.ts";
import { Simulation } from "./helpers/simulation.ts";

test.each([
  ["other items", 10_000, 1],
  ["short items, which do not join its batch", Array<number>(10_000).fill(8), [256]],
  ["items of every length", Array.from({ length: 10_000 }, (_, i) => 1 + ((i * 97) % 256)), [4000]],
])("a lone item waits for at most two batches while another prediction has 10,000 %s", async (_, many, one) => {
  const simulation = new Simulation({ maxBatchSize: 16 });
  simulation.add({}, many);
  await simulation.clock.advanceTo(25);
  const [lone] = simulation.add({}, one);
  await simulation.clock.drain();
  const batch = simulation.batches.findIndex(({ items }) => items.some(({ id }) => id === lone?.id));
  const running = simulation.batches.findIndex(({ endedAtMs }) => endedAtMs > 25);
  expect(batch - running).toBeLessThanOrEqual(2);
  if (lone?.length === 256) expect(simulation.batches[batch]?.items.length).toBe(1);
});

test("a single item of another shape runs soon, despite a stream of full batches", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1000, { key: "a" });
  await simulation.clock.advanceTo(25);
  const [lone] = simulation.add({}, 1, { key: "b" });
  await simulation.clock.drain();
  expect(simulation.finishedAtMs.get(lone?.id ?? -1)).toBeLessThanOrEqual(25 + 4 * 10);
});

test("waiting predictions put their items into a batch by turns", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const lanes = [{}, {}];
  simulation.add({}, 1);
  for (const lane of lanes) simulation.add(lane, 2);
  await simulation.clock.drain();
  const [, second] = simulation.batches;
  expect(second?.items.map(({ lane }) => lanes.indexOf(lane))).toEqual([0, 1, 0, 1]);
});

test("an idle runner starts a single item at once", async () => {
  const simulation = new Simulation({ maxBatchSize: 64 });
  simulation.add({}, 1);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([0]);
});

test("while a runner is busy, at most one next batch is committed, and only a full one", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1);
  simulation.add({}, 3);
  expect(simulation.batches.length).toBe(1);
  simulation.add({}, 9);
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 4]);
  const padded = new Simulation({ maxBatchSize: 4 });
  padded.add({}, [1]);
  padded.add({}, [500, 5, 5]);
  expect(padded.batches.length).toBe(1);
  padded.add({}, [5]);
  expect(padded.batches.map(({ items }) => items.map(({ length }) => length))).toEqual([[1], [500]]);
});

test("during a long batch, the next batch is chosen late, so that new items can join, but before the runner is idle", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 100 });
  const [many, late] = [{}, {}];
  simulation.add(many, 20);
  await simulation.clock.advanceTo(270);
  simulation.add(late, 1);
  await simulation.clock.drain();
  const [, , , next] = simulation.batches;
  expect(next?.items.some(({ lane }) => lane === late)).toBe(true);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([0, 100, 200, 300, 400, 500]);
  expect(next?.givenAtMs).toBeLessThan(300);
});

test("an item that arrives more than 20 ms before the start of the next batch joins that batch", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 30 });
  const [many, late] = [{}, {}];
  simulation.add(many, 40);
  await simulation.clock.advanceTo(99);
  simulation.add(late, 1);
  await simulation.clock.drain();
  expect(simulation.batches[4]?.items.some(({ lane }) => lane === late)).toBe(true);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual(
    Array.from({ length: 11 }, (_, i) => 30 * i),
  );
});

test.each([4, 7, 9])(
  "the next batch is dispatched in time even if the event loop turns only every %d ms",
  async (turnMs) => {
    const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 15, turnMs });
    simulation.add({}, 400);
    await simulation.clock.drain();
    const idle = simulation.batches.map(
      ({ startedAtMs }, i) => startedAtMs - (simulation.batches[i - 1]?.endedAtMs ?? 0),
    );
    // The second batch is dispatched without an estimate.
    expect(idle.slice(2).filter((ms) => ms > 0)).toEqual([]);
  },
);

test("the delay of an item starts when the item is ready; full batches do not wait", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, maxQueueDelayMs: 50 });
  simulation.add({}, 1);
  await simulation.clock.advanceTo(30);
  simulation.add({}, 1);
  await simulation.clock.advanceTo(49);
  expect(simulation.batches.length).toBe(0);
  await simulation.clock.advanceTo(50);
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([2]);
  await simulation.clock.advanceTo(100);
  simulation.add({}, 4);
  expect(simulation.batches.at(-1)?.startedAtMs).toBe(100);
});

test("removing a prediction does not change the other items of its batch", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const [removed, kept] = [{}, {}];
  simulation.add({}, 1);
  simulation.add(removed, 5);
  const items = simulation.add(kept, 1);
  expect(
    simulation.batcher.remove(removed).length +
      simulation.batches.flatMap((batch) => batch.items).filter(({ lane }) => lane === removed).length,
  ).toBe(5);
  await simulation.clock.drain();
  expect(simulation.done).toContain(items[0]?.id ?? -1);
  expect(simulation.batcher.length).toBe(0);
});

test.each([
  ["of one size", (count: number) => ({ maxBatchSize: count / 2 }), 1, () => 0],
  ["of any length", (count: number) => ({ maxBatchSize: 16, runners: count }), 100, (i: number) => (i * 97) % 4096],
])(
  "handling an item %s takes as long among 100,000 waiting items as among 1,000",
  (_, options, predictions, lengthOf) => {
    const cost = (count: number) => {
      const simulation = new Simulation(options(count));
      const lanes = Array.from({ length: predictions }, () => ({}));
      const ms = cpuMs(() => {
        for (let i = 0; i < count; i++) {
          const lane = lanes[i % predictions] ?? {};
          simulation.batcher.add({ lane, id: i, key: "", length: lengthOf(i), readyAtMs: 0 });
        }
        simulation.batcher.pump();
      });
      return ms / count;
    };
    cost(10_000);
    expect(cost(100_000)).toBeLessThan(10 * cost(1000) + 0.005);
  },
);

describe("a batch reports why it was dispatched:", () => {
  test("an idle runner, a full batch, or the delay of the oldest item", async () => {
    const simulation = new Simulation({ maxBatchSize: 2, maxQueueDelayMs: 5 });
    simulation.add({}, 2);
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.causes).toEqual(["full", "delay"]);
    const eager = new Simulation({ maxBatchSize: 2 });
    eager.add({}, 1);
    await eager.clock.drain();
    expect(eager.causes).toEqual(["idle"]);
  });

  test("a part of a failed batch, or an item alone", async () => {
    const simulation = new Simulation({ maxBatchSize: 2 });
    simulation.add({}, 1);
    simulation.add({}, 1, { isBad: true });
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.causes).toEqual(["idle", "full", "part", "part"]);
    simulation.add({}, 1, { isAlone: true });
    await simulation.clock.drain();
    expect(simulation.causes.at(-1)).toBe("alone");
  });
});
