/** How the batching rule treats failed batches, and items that may end the engine process. */
import { describe, expect, test } from "bun:test";
import { separateKey } from "../src/engine/item-check.ts";
import { type Item, Simulation } from "./helpers/simulation.ts";

test("a failed batch is halved to the end, however many items wait behind it", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1);
  const lane = {};
  const good = simulation.add(lane, 3);
  const [bad] = simulation.add(lane, 1, { isBad: true });
  for (let i = 0; i < 200; i++) simulation.add({}, 4);
  await simulation.clock.advanceTo(500);
  expect(simulation.lost).toEqual([bad?.id ?? -1]);
  for (const { id } of good) expect(simulation.done).toContain(id);
});

test("a lasting lack of memory is reported once for each lower limit, not each minute or for each shape", async () => {
  const simulation = new Simulation({ maxBatchSize: 16, fits: () => 4 });
  const keys = Array.from({ length: 20 }, (_, size) => `size=${size}`);
  for (let minute = 0; minute < 10; minute++) {
    for (const key of keys) simulation.add({}, 16, { key });
    await simulation.clock.drain();
    await simulation.clock.advanceTo((minute + 1) * 300_000);
  }
  expect(simulation.shrinks).toEqual([8, 4]);
  expect(simulation.done.length).toBe(10 * 20 * 16);
});

test("one bad prediction among 16 is found by halving; the batches of the others are not halved further", async () => {
  const simulation = new Simulation({ maxBatchSize: 64 });
  simulation.add({}, 1);
  const lanes = Array.from({ length: 16 }, () => ({}));
  const items = lanes.flatMap((lane, i) => [
    ...simulation.add(lane, 3),
    ...simulation.add(lane, 1, { isBad: i === 5 }),
  ]);
  await simulation.clock.drain();
  expect(simulation.lost).toEqual(items.filter(({ isBad }) => isBad).map(({ id }) => id));
  expect(simulation.done.length).toBe(64);
  // One run for the first item, one for the batch. Then four halvings between predictions and two inside one
  // prediction, two runs each.
  expect(simulation.batches.length).toBe(2 + 2 * 4 + 2 * 2);
  const parts = simulation.batches.slice(2, 2 + 2 * 4).map((batch) => batch.items);
  // Halving between predictions keeps the four items of a prediction in one batch.
  for (const part of parts) expect(part.length).toBe(4 * new Set(part.map(({ lane }) => lane)).size);
});

test("failing items of many predictions end one after another, however many wait behind them", async () => {
  const simulation = new Simulation({ maxBatchSize: 16 });
  for (let i = 0; i < 400; i++) simulation.add({}, 4, { isBad: true });
  await simulation.clock.advanceTo(2000);
  // A run takes 10 ms, so 2000 ms have about 200 runs.
  expect(simulation.batches.length).toBeLessThanOrEqual(202);
  // A batch of 16 bad items takes 31 runs until each item has failed alone. Two batches may be unfinished at the end.
  expect(simulation.lost.length).toBeGreaterThan(200 * (16 / 31) - 2 * 16);
});

test("predictions whose items fail leave every second batch to others", async () => {
  const simulation = new Simulation({ maxBatchSize: 8 });
  simulation.add({}, 1);
  simulation.add({}, 8, { isBad: true, key: separateKey("") });
  const good: Item[] = [];
  for (let i = 0; i < 50; i++) good.push(...simulation.add({}, 8));
  await simulation.clock.drain();
  expect(simulation.lost.length).toBe(8);
  const isBad = simulation.batches.map(({ items }) => items.some((item) => item.isBad));
  const [first, last] = [isBad.indexOf(true), isBad.lastIndexOf(true)];
  const others = isBad.slice(first, last).filter((bad) => !bad);
  expect(others.length).toBeGreaterThan(0.4 * (last - first));
  expect(simulation.done.length).toBe(good.length + 1);
});

test("items of a failed batch whose clients have left do not run again, and are reported once", async () => {
  const simulation = new Simulation({ maxBatchSize: 64 });
  simulation.add({}, 1);
  const [left, other] = [{}, {}];
  const ofLeft = Array.from({ length: 16 }, () => [
    ...simulation.add(left, 3),
    ...simulation.add(left, 1, { isBad: true }),
  ]).flat();
  await simulation.clock.advanceTo(12);
  simulation.left.add(left);
  simulation.add(other, 4);
  await simulation.clock.drain();
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 64, 4]);
  expect(simulation.lost).toEqual(ofLeft.map(({ id }) => id));
  expect(simulation.done.length).toBe(1 + 4);
});

test("a batch that did not fit in memory is halved by size, regardless of predictions", async () => {
  const simulation = new Simulation({ maxBatchSize: 8, fits: 4 });
  simulation.add({}, 1);
  simulation.add({}, 7);
  simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 8, 4, 4]);
  expect(simulation.shrinks).toEqual([4]);
});

describe("with too little memory beside a larger batch of another runner", () => {
  /** A long batch of 8 items and a short one of `small` items run at the same time, and only 8 items fit in memory. */
  async function beside(small: number) {
    const simulation = new Simulation({
      maxBatchSize: 8,
      runners: 2,
      fitsTogether: 8,
      durationMs: (_, [first]) => (first?.key === "large" ? 50 : 10),
    });
    simulation.add({}, 8, { key: "large" });
    simulation.add({}, small, { key: "small" });
    await simulation.clock.drain();
    return simulation;
  }

  test.each([1, 4])("a batch of %d items runs again alone, and keeps its size", async (small) => {
    const { lost, done, batches } = await beside(small);
    expect([lost, done.length]).toEqual([[], 8 + small]);
    expect(batches.map(({ items, startedAtMs }) => [items.length, startedAtMs])).toEqual([
      [8, 0],
      [small, 0],
      [small, 50],
    ]);
  });

  test("a batch of one item, though no larger than the other, runs again alone; later items of its shape run", async () => {
    const simulation = new Simulation({
      maxBatchSize: 8,
      runners: 2,
      fitsTogether: 1,
      durationMs: (_, [first]) => (first?.key === "long" ? 50 : 10),
    });
    simulation.add({}, 1, { key: "long" });
    simulation.add({}, 1, { key: "short" });
    await simulation.clock.drain();
    simulation.add({}, 2, { key: "short" });
    await simulation.clock.drain();
    expect([simulation.done.length, simulation.lost, simulation.shrinks]).toEqual([4, [], [1]]);
  });

  test("later batches of the large shape are smaller", async () => {
    const simulation = await beside(4);
    expect(simulation.shrinks).toEqual([4]);
    simulation.add({}, 8, { key: "large" });
    simulation.add({}, 4, { key: "small" });
    await simulation.clock.drain();
    expect(simulation.batches.slice(3).map(({ items }) => items.length)).toEqual([4, 4, 4]);
  });
});

test("an item that lacks memory alone fails", async () => {
  const simulation = new Simulation({ maxBatchSize: 8, runners: 2, fits: 0 });
  simulation.add({}, 1);
  simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.lost.toSorted()).toEqual([0, 1]);
});

test("waiting halves of a failed batch count as waiting items", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, [{}, {}, { isBad: true }]);
  expect(simulation.batcher.length).toBe(0);
  await simulation.clock.advanceTo(10);
  // The batch has failed. Its first half, one item, runs; the two items of its second half wait.
  expect(simulation.batcher.length).toBe(2);
  await simulation.clock.drain();
  expect(simulation.batcher.length).toBe(0);
});

describe("an item that was running when a process died", () => {
  test("is dispatched after the reports of all earlier items, since it may end the process", async () => {
    const simulation = new Simulation({ maxBatchSize: 4 });
    simulation.add({}, 2);
    simulation.add({}, 1, { isAlone: true });
    simulation.add({}, 1, { isAlone: true, isBad: true });
    simulation.add({}, 1, { isAlone: true });
    await simulation.clock.drain();
    expect(simulation.reportedBefore).toEqual([0, 2, 3, 4]);
  });

  test("counts as waiting, and is removed with its prediction", async () => {
    const simulation = new Simulation({ maxBatchSize: 4 });
    const [lane, other] = [{}, {}];
    simulation.add({}, 1);
    simulation.add(lane, 2, { isAlone: true });
    simulation.add(other, 1);
    expect(simulation.batcher.length).toBe(3);
    expect(simulation.cancel(lane).length).toBe(2);
    expect(simulation.batcher.length).toBe(1);
    await simulation.clock.drain();
    expect(simulation.done).toEqual([0, 3]);
  });

  test("lets the runners continue at once if it is removed while it waits", () => {
    const simulation = new Simulation({ maxBatchSize: 4, runners: 2 });
    const lane = {};
    simulation.add({}, 1);
    simulation.add(lane, 1, { isAlone: true });
    simulation.add({}, 2);
    expect(simulation.batches.length).toBe(1);
    simulation.cancel(lane);
    expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 2]);
  });
});

test("an item that must run alone waits until the reports of earlier items have left the process; other items do not wait", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  let isHeard = false;
  simulation.isHeard = () => isHeard;
  const ids = () => simulation.batches.map(({ items }) => items.map(({ id }) => id));
  simulation.add({}, 1, { isAlone: true });
  simulation.add({}, 1);
  expect(ids()).toEqual([[1]]);
  isHeard = true;
  simulation.add({}, 1);
  expect(ids()).toEqual([[1]]);
  await simulation.clock.drain();
  expect(ids()).toEqual([[1], [0], [2]]);
});

test("the run time of a batch counts from the newest part of an output that it yielded", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 100 });
  simulation.add({}, 1);
  await simulation.clock.advanceTo(50);
  expect(simulation.batcher.runningForMs).toBe(50);
  simulation.runners[0]?.parts?.part([]);
  expect(simulation.batcher.runningForMs).toBe(0);
  await simulation.clock.advanceTo(80);
  expect(simulation.batcher.runningForMs).toBe(30);
});
