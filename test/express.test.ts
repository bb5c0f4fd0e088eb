/**
 * An express runner beside the other runners of a device: its batches of small new predictions overtake the long
 * batches of large ones.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { TensorSpec } from "../src/author/tensor.ts";
import type { Item } from "../src/engine/engine.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import { type OpenOptions, openRunners } from "../src/engine/open-runners.ts";
import { Simulation } from "./helpers/simulation.ts";
import { type Fixtures, fixtures } from "./helpers/weights.ts";

const x: TensorSpec = { dtype: "float32", dims: [4] };
let made: Fixtures;
beforeAll(async () => {
  made = await fixtures();
}, 600_000);

/**
 * Simulates a device: by default a batch of 16 items takes 168 ms, a single item 18 ms. Its first batches have run, and
 * many items of one prediction wait.
 */
async function busy(options: { fits?: number; fitsBeside?: number; msPerBatch?: number } = {}) {
  const { msPerBatch = 8, fits = Infinity, fitsBeside = Infinity } = options;
  const simulation = new Simulation({
    maxBatchSize: 16,
    express: true,
    fits,
    fitsBeside,
    durationMs: (size) => (msPerBatch / 8) * (8 + 10 * size),
  });
  simulation.add({}, 1000);
  await simulation.clock.advanceTo(200 * (msPerBatch / 8));
  return simulation;
}

describe("during batches of a large prediction", () => {
  test("a single item of another prediction ends as early as it would alone", async () => {
    const simulation = await busy();
    const [lone] = simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.finishedAtMs.get(lone?.id ?? -1)).toBe(200 + 18);
    expect(simulation.causes.filter((cause) => cause === "express").length).toBe(1);
  });

  test("small predictions that arrive together share a batch, and later ones run afterwards", async () => {
    const simulation = await busy();
    simulation.add({}, 1);
    await simulation.clock.advanceTo(205);
    const together = [simulation.add({}, 1), simulation.add({}, 2)].flat();
    await simulation.clock.drain();
    expect(together.map(({ id }) => simulation.finishedAtMs.get(id))).toEqual(Array(3).fill(218 + 38));
  });

  test("the batches of the large prediction take no longer than without small predictions", async () => {
    const [simulation, alone] = [await busy(), await busy()];
    for (let i = 0; i < 20; i++) {
      await simulation.clock.advanceTo(300 + 100 * i);
      simulation.add({}, 1);
    }
    for (const { clock } of [simulation, alone]) await clock.drain();
    const lastOf = ({ runners }: Simulation) => runners[0]?.batches.at(-1)?.endedAtMs;
    expect(lastOf(simulation)).toBe(lastOf(alone));
  });

  test("a second large prediction alternates with the first", async () => {
    const simulation = await busy();
    simulation.add({}, 17);
    await simulation.clock.drain();
    expect(simulation.express.batches).toEqual([]);
  });

  test("the express runner takes at most a quarter of a batch", async () => {
    const simulation = await busy();
    for (let i = 0; i < 7; i++) simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.express.batches.map(({ items }) => items.length)).toEqual([1, 4, 2]);
  });

  test("items of another shape do not share an express batch", async () => {
    const simulation = await busy();
    simulation.add({}, 1);
    simulation.add({}, 1, { key: "a" });
    simulation.add({}, 1, { key: "b" });
    await simulation.clock.drain();
    expect(simulation.express.batches.map(({ items }) => items.map(({ key }) => key))).toEqual([[""], ["a"], ["b"]]);
  });

  test("an express batch that does not fit in memory runs later, and no further express batch runs beside another batch", async () => {
    const simulation = await busy({ fitsBeside: 0 });
    const [first] = simulation.add({}, 1);
    await simulation.clock.advanceTo(300);
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.express.batches.map(({ items }) => items)).toEqual([first === undefined ? [] : [first]]);
    expect([simulation.done.length, simulation.lost, simulation.shrinks]).toEqual([1002, [], []]);
  });

  test("no express batch runs after one did not fit in memory", async () => {
    const simulation = await busy({ fits: 8 });
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.express.batches).toEqual([]);
    expect(simulation.done.length).toBe(1001);
  });
});

test("items of clients whose last items ran in a batch with a large prediction overtake its next batch", async () => {
  const simulation = new Simulation({ maxBatchSize: 16, express: true, durationMs: (size) => 10 * size });
  const ask = () => Array.from({ length: 5 }, () => simulation.add({}, 1)).flat();
  simulation.add({}, 1);
  ask();
  simulation.add({}, 500);
  await simulation.clock.advanceTo(20);
  expect(simulation.batches.map(({ items }) => new Set(items.map(({ lane }) => lane)).size)).toEqual([1, 6, 1]);
  const again = ask();
  await simulation.clock.drain();
  expect(simulation.express.batches.flatMap(({ items }) => items)).toEqual(again);
});

test("items that wait for the express runner do not join the next large batch", async () => {
  const simulation = await busy();
  simulation.add({}, 1, { key: "a" });
  await simulation.clock.advanceTo(320);
  // The express batch of these four items runs from 320 to 368 ms. The next large batch begins before that, at 336 ms.
  simulation.add({}, 4);
  const [last] = simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.express.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([200, 320, 368]);
  expect(simulation.finishedAtMs.get(last?.id ?? -1)).toBe(368 + 18);
});

test("items that wait for their batch to fill also wait for the express runner", async () => {
  const simulation = new Simulation({ maxBatchSize: 16, express: true, maxQueueDelayMs: 100, durationMs: () => 300 });
  simulation.add({}, 32);
  await simulation.clock.advanceTo(20);
  const lane = {};
  simulation.add(lane, 2);
  simulation.add(lane, 14);
  await simulation.clock.drain();
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([16, 16, 16]);
});

test("an idle runner takes an item that waits for the express runner", async () => {
  const simulation = new Simulation({
    maxBatchSize: 16,
    express: true,
    durationMs: (size, items) => (items[0]?.key === "slow" ? 1000 : 10 * size),
  });
  simulation.add({}, 32);
  await simulation.clock.advanceTo(20);
  simulation.add({}, 1, { key: "slow" });
  const [waits] = simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.express.batches.length).toBe(1);
  expect(simulation.finishedAtMs.get(waits?.id ?? -1)).toBe(320 + 10);
});

test("an item that waits for the express runner can be removed", async () => {
  const simulation = await busy();
  simulation.add({}, 4);
  const lane = {};
  const items = simulation.add(lane, 1);
  expect(simulation.batcher.remove(lane)).toEqual(items);
  await simulation.clock.drain();
  expect(simulation.done.length).toBe(1004);
});

test("batches of many predictions are not overtaken", async () => {
  const simulation = new Simulation({ maxBatchSize: 16, express: true, durationMs: () => 100 });
  for (let i = 0; i < 10; i++) {
    for (let lane = 0; lane < 20; lane++) simulation.add({}, 1);
    await simulation.clock.advanceTo(50 * i);
  }
  await simulation.clock.drain();
  expect(simulation.express.batches).toEqual([]);
});

test("batches that take a millisecond are not overtaken", async () => {
  const simulation = await busy({ msPerBatch: 8 / 200 });
  simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.express.batches).toEqual([]);
});

test("a forward pass of one item starts before a full batch that arrived earlier", async () => {
  const runners = await openRunners({ ...options("slow.pt"), outputs: { y: x } });
  const engine = new LocalEngine<Item>({
    runners,
    inputs: { x },
    outputs: { y: x },
    maxBatchSize: 8,
    maxQueueDelayMs: 0,
  });
  const [many, one] = [{}, {}];
  const begun: object[] = [];
  let ended = 0;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let index = 0;
  const submit = (lane: object, rounds: number) =>
    engine.submit(
      { lane, index: index++ },
      { x: { dtype: "float32", shape: [4], data: new Float32Array(4).fill(rounds) } },
    );
  engine.listener = {
    dispatched: (items) => begun.push(...items.map(({ lane }) => lane)),
    finished: () => {
      ended += 1;
      if (ended === 8) submit(one, 1);
      if (ended === 25) resolve();
    },
    failed: (_, error) => reject(error),
  };
  for (let i = 0; i < 24; i++) submit(many, 30);
  await promise;
  await engine.close();
  expect(begun.indexOf(one)).toBe(16);
});

describe("a model with one instance has no concurrent batches", () => {
  test.each<[string, () => Partial<OpenOptions>, boolean]>([
    ["unless their weights allow it", () => ({}), true],
    ["if these keep a state", () => ({ weights: { model: made.path("sums.pt") } }), false],
    ["if the author's own code runs them", () => ({ predict: () => Promise.reject(new Error("no")) }), false],
  ])("%s", async (_, given, allowed) => {
    const runners = await openRunners({ ...options("slow.pt"), ...given() });
    expect(runners[0]?.another !== undefined).toBe(allowed);
    await Promise.all(runners.map((runner) => runner.dispose()));
  });
});

function options(file: string): OpenOptions {
  return {
    weights: { model: made.path(file) },
    operators: [],
    predict: undefined,
    inputs: { x },
    outputs: { y: x },
    devices: ["cpu"],
    threads: 1,
    instances: 1,
  };
}
