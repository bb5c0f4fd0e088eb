import { describe, expect, test } from "bun:test";
import type { BatchItem } from "../src/engine/batching/batching.ts";
import { ItemQueue } from "../src/engine/batching/item-queue.ts";
import { cpuMs } from "./helpers/cpu-time.ts";
import { Simulation } from "./helpers/simulation.ts";

/** Properties of an item beside items of one shape and length. */
const others: [string, { readonly key?: string; readonly length?: number }][] = [
  ["the same shape", {}],
  ["another shape", { key: "other" }],
  ["another length", { length: 4000 }],
];

test.each(others)("items of one shape and of %s start in the order of their arrival", async (_, other) => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const arrivals: number[] = [];
  for (let atMs = 0; atMs < 100; atMs += 2) {
    await simulation.clock.advanceTo(atMs);
    arrivals.push(...simulation.add({}, 1, atMs % 4 === 0 ? {} : other).map(({ id }) => id));
  }
  await simulation.clock.drain();
  // The oldest waiting item is in the next batch.
  for (const { items, givenAtMs } of simulation.batches) {
    const later = simulation.batches.filter((batch) => batch.givenAtMs > givenAtMs).flatMap((batch) => batch.items);
    expect(Math.min(...items.map(({ id }) => id))).toBeLessThan(Math.min(Infinity, ...later.map(({ id }) => id)));
  }
  expect(simulation.done.length).toBe(arrivals.length);
});

test("items of a common length do not delay an item of another length beyond the items before it", async () => {
  const simulation = new Simulation({ maxBatchSize: 16 });
  simulation.add({}, Array<number>(64).fill(8));
  await simulation.clock.advanceTo(5);
  const [lone] = simulation.add({}, [256]);
  await simulation.clock.advanceTo(6);
  simulation.add({}, Array<number>(10_000).fill(8));
  await simulation.clock.drain();
  const batch = simulation.batches.findIndex(({ items }) => items.some(({ id }) => id === lone?.id));
  expect(batch).toBe(4);
  expect(simulation.batches[batch]?.items.length).toBe(1);
});

/** Items of a long prediction, each submitted behind the earlier ones. */
const inLine = (count: number, other: object = {}) =>
  Array.from({ length: count }, (_, ahead) => ({ ahead, ...other }));

test.each(others)("an item of %s goes before the waiting items of a long prediction", async (_, other) => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const long = simulation.add({}, inLine(20));
  await simulation.clock.advanceTo(5);
  const [small] = simulation.add({}, 1, other);
  await simulation.clock.drain();
  // When it came, one batch was running and one was committed.
  expect(simulation.batches.findIndex(({ items }) => items.some(({ id }) => id === small?.id))).toBe(2);
  const ids = simulation.batches.flatMap(({ items }) => items.map(({ id }) => id)).filter((id) => id !== small?.id);
  expect(ids).toEqual(long.map(({ id }) => id));
});

test("an item of a long prediction waits for as many small ones as it had ahead, though small ones keep coming", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 8);
  const long = simulation.add({}, inLine(12));
  for (let atMs = 5; atMs < 200; atMs += 10) {
    await simulation.clock.advanceTo(atMs);
    simulation.add({}, 4);
  }
  await simulation.clock.drain();
  const started = simulation.batches.flatMap(({ items }) => items.map(({ id }) => id));
  // Before it: 8 items, `ahead` items of its prediction, as many small ones, and small ones of its batch.
  for (const { id, ahead } of long) expect(started.indexOf(id)).toBeLessThan(8 + ahead + ahead + 4);
});

test("two long predictions share the batches, though all items of the first came first", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 8);
  const [first] = simulation.add({}, inLine(8));
  simulation.add({}, inLine(8));
  await simulation.clock.drain();
  const waiting = simulation.batches.slice(2);
  expect(waiting.map(({ items }) => items.filter(({ lane }) => lane === first?.lane).length)).toEqual([2, 2, 2, 2]);
});

test("an item that is queued again keeps its place", () => {
  const queue = new ItemQueue<BatchItem>({ maxBatchSize: 1, maxQueueDelayMs: 0, mostOf: () => 1 });
  const item = (ahead: number): BatchItem => {
    return { lane: {}, key: "", padded: new Map(), tensors: [], readyAtMs: 0, ahead };
  };
  const again = item(3);
  queue.add(again);
  queue.takeFirst(1);
  for (let i = 0; i < 5; i++) queue.add(item(0));
  queue.takeFirst(4);
  queue.add(item(0));
  queue.add(again);
  expect(queue.takeFirst(3).indexOf(again)).toBe(1);
});

test("the delay of a batch starts with its oldest item, even if a newer one goes before it", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, maxQueueDelayMs: 50 });
  simulation.add({}, [{ ahead: 2 }]);
  await simulation.clock.advanceTo(40);
  simulation.add({}, 1);
  await simulation.clock.advanceTo(49);
  expect(simulation.batches.length).toBe(0);
  await simulation.clock.advanceTo(50);
  expect(simulation.batches.map(({ items }) => items.map(({ id }) => id))).toEqual([[1, 0]]);
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

test.each([
  ["during a long batch, the next batch is chosen late", 100, 270],
  ["the next batch is chosen 20 ms before its start", 30, 69],
])("%s, so that it has no canceled items, but before the runner is idle", async (_, durationMs, cancelAtMs) => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => durationMs });
  const canceled = {};
  simulation.add({}, 12);
  simulation.add(canceled, 8);
  const later = simulation.add({}, 4);
  await simulation.clock.advanceTo(cancelAtMs);
  expect(simulation.cancel(canceled).length).toBe(8);
  await simulation.clock.drain();
  const [, , , next] = simulation.batches;
  expect(next?.items).toEqual(later);
  expect(next?.givenAtMs).toBeLessThan(3 * durationMs);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([0, 1, 2, 3].map((i) => i * durationMs));
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

const sizes = (maxBatchSize: number) => ({ maxBatchSize, mostOf: () => maxBatchSize });
test.each([
  ["of one size", (count: number) => sizes(count / 2), 1, () => 0],
  ["of any length", () => sizes(16), 100, (i: number) => (i * 97) % 4096],
])(
  "handling an item %s takes as long among 100,000 waiting items as among 1,000",
  (_, options, predictions, lengthOf) => {
    const cost = (count: number) => {
      const queue = new ItemQueue<BatchItem>({ maxQueueDelayMs: 0, ...options(count) });
      const lanes = Array.from({ length: predictions }, () => ({}));
      const items = Array.from({ length: count }, (_, i) => {
        const lane = lanes[i % predictions] ?? {};
        return {
          lane,
          key: "",
          padded: new Map([["length", lengthOf(i)]]),
          tensors: [],
          readyAtMs: i,
          ahead: 0,
          place: 0,
        };
      });
      const ms = cpuMs(() => {
        for (const item of items) queue.add(item);
        while (queue.forFreeRunner(Infinity) !== undefined);
      });
      expect(queue.length).toBe(0);
      return ms / count;
    };
    cost(10_000);
    expect(cost(100_000)).toBeLessThan(10 * cost(1000) + 0.005);
  },
);

describe("a batch reports why it was dispatched:", () => {
  const causes = ({ runs }: Simulation) => runs.map(({ cause }) => cause);

  test("an idle runner, a full batch, or the delay of the oldest item", async () => {
    const simulation = new Simulation({ maxBatchSize: 2, maxQueueDelayMs: 5 });
    simulation.add({}, 2);
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(causes(simulation)).toEqual(["full", "delay"]);
    const eager = new Simulation({ maxBatchSize: 2 });
    eager.add({}, 1);
    await eager.clock.drain();
    expect(causes(eager)).toEqual(["idle"]);
  });

  test("a part of a failed batch, or an item alone", async () => {
    const simulation = new Simulation({ maxBatchSize: 2 });
    simulation.add({}, 1);
    simulation.add({}, 1, { isBad: true });
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(causes(simulation)).toEqual(["idle", "part"]);
    simulation.add({}, 1, { isAlone: true });
    await simulation.clock.drain();
    expect(causes(simulation).at(-1)).toBe("alone");
  });
});
