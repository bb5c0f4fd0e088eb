/** The item flow yields to the event loop, however slow the model's code is. */
import { expect, spyOn, test } from "bun:test";
import { defineModel } from "../src/author/define.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { Engine } from "../src/engine/engine.ts";
import { z } from "../src/index.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher } from "../src/server/flow/fetcher.ts";
import { ItemFlow } from "../src/server/flow/item-flow.ts";
import { ItemList, type ListItem } from "../src/server/flow/item-list.ts";
import { ItemPipeline } from "../src/server/flow/item-pipeline.ts";
import { wholeText } from "../src/server/flow/output-encoder.ts";
import { runDemo } from "../src/server/flow/run-demo.ts";
import { ReadyInputs } from "../src/server/inputs/input-list.ts";
import { MemoryAccount } from "../src/server/memory/memory-account.ts";
import { loopTurns } from "./helpers/loop-turns.ts";

/** An engine without batch time, so every item is accepted at once. */
class InstantEngine implements Engine<ListItem> {
  readonly pid = undefined;
  readonly maxBatchSize: number = 1;
  readonly instances = 1;
  readonly isReady = true;
  readonly isSilent = false;
  listener: Engine<ListItem>["listener"];

  submit(item: ListItem): void {
    this.listener?.dispatched([item]);
    this.listener?.finished(item, {});
  }

  cancel(): void {}
  hurry(): void {}
  async close(): Promise<void> {}
}

/** Ends all items when the test calls `end`. */
class HeldEngine extends InstantEngine {
  override readonly maxBatchSize: number = 128;
  readonly #items: ListItem[] = [];

  override submit(item: ListItem): void {
    this.#items.push(item);
  }

  /** Items that wait. */
  get items(): readonly ListItem[] {
    return this.#items;
  }

  finish(): void {
    this.listener?.dispatched(this.#items);
    for (const item of this.#items) this.listener?.finished(item, {});
  }
}

const anyModel = defineModel({
  name: "any",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "none.pt",
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: () => ({ y: 1 }),
});

const COUNT = 200;

/** Blocks for 2 ms. */
function busy(): void {
  const end = performance.now() + 2;
  while (performance.now() < end);
}

test("with a device that takes no time, the event loop turns before all inputs are prepared", async () => {
  let prepared = 0;
  const model = defineModel({
    name: "slow",
    input: z.object({ x: z.number() }),
    output: z.object({ y: z.number() }),
    tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
    weights: "none.pt",
    preprocess: ({ x }) => {
      // All of them together would block the loop for much longer than the flow may.
      const end = performance.now() + 0.5;
      while (performance.now() < end);
      prepared += 1;
      return { x: tensor(Float32Array.of(x), []) };
    },
    postprocess: () => ({ y: 1 }),
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const flow = new ItemFlow(new InstantEngine(), new ItemPipeline(model, fetcher));
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  let left = COUNT;
  const inputs = Array.from({ length: COUNT }, (_, x) => ({ x }));
  const list = new ItemList(new ReadyInputs(inputs), {
    succeeded: () => {
      left -= 1;
      if (left === 0) resolve();
    },
    failed: (_, error) => reject(error),
  });
  flow.run(list);
  // The flow has yielded, with most items unprepared.
  expect(prepared).toBeLessThan(COUNT / 2);
  await done;
  expect(prepared).toBe(COUNT);
});

const numbers = { input: z.object({ x: z.number() }), output: z.object({ y: z.number() }), weights: "none.pt" };
const tensors = { inputs: { x: float32() }, outputs: { y: float32() } };
const preprocess = ({ x }: { x: number }) => ({ x: tensor(Float32Array.of(x), []) });
const inputs = (count: number) => new ReadyInputs(Array.from({ length: count }, (_, x) => ({ x })));

test("slow outputs of a batch let the event loop turn, and alternate with outputs of other lists", async () => {
  const model = defineModel({
    ...numbers,
    name: "slow",
    tensors,
    preprocess,
    postprocess: () => {
      busy();
      return { y: 1 };
    },
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(model, fetcher));
  let made = 0;
  const large = Promise.withResolvers<void>();
  const listOf = (count: number, done: () => void) => {
    const failed = (_: number, error: Error) => large.reject(error);
    return new ItemList(inputs(count), { succeeded: done, failed });
  };
  flow.run(
    listOf(COUNT, () => {
      made += 1;
      if (made === COUNT) large.resolve();
    }),
  );
  let madeBefore = COUNT;
  flow.run(
    listOf(1, () => {
      madeBefore = made;
    }),
  );
  for (let i = 0; flow.ready.items <= COUNT && i < COUNT; i++) await new Promise(setImmediate);
  engine.finish();
  expect(made).toBeLessThan(COUNT / 2);
  await large.promise;
  expect(madeBefore).toBeLessThan(COUNT / 2);
});

test.each([
  ["at once", 0],
  ["after their turn had to be waited for", 20],
])(
  "rows that an asynchronous postprocess holds for one list, given %s, leave memory for others",
  async (_, firstMs) => {
    const slow = Promise.withResolvers<void>();
    const rows = { y: tensor(new Float32Array(1), []) };
    class RowsEngine extends InstantEngine {
      override submit(item: ListItem): void {
        this.listener?.dispatched([item]);
        this.listener?.finished(item, rows);
      }
    }
    const model = defineModel({
      ...numbers,
      name: "later",
      tensors,
      preprocess,
      postprocess: (_, { input: { x } }) => {
        if (x === 0) for (const end = performance.now() + firstMs; performance.now() < end; );
        return x < 0 ? { y: 1 } : slow.promise.then(() => ({ y: 1 }));
      },
    });
    using fetcher = new Fetcher({ guard: new AddressGuard() });
    // Enough for the rows of a hundred items.
    const limits = { maxReadyBytes: 400, maxFetches: 1, pollShare: 0.1 };
    const flow = new ItemFlow(new RowsEngine(), new ItemPipeline(model, fetcher), limits);
    const receiver = (done: () => void) => ({
      succeeded: done,
      failed: (_: number, error: Error) => Promise.reject(error),
    });
    let left = COUNT;
    const all = Promise.withResolvers<void>();
    flow.run(
      new ItemList(
        inputs(COUNT),
        receiver(() => {
          left -= 1;
          if (left === 0) all.resolve();
        }),
      ),
    );
    // Repeats until the flow starts no more items.
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    await new Promise<void>((resolve) => flow.run(new ItemList(new ReadyInputs([{ x: -1 }]), receiver(resolve))));
    expect(left).toBe(COUNT);
    slow.resolve();
    await all.promise;
  },
);

test("a demo gets large outputs as the model made them, and the event loop turns while they become text", async () => {
  const list = Array.from({ length: 200_000 }, (_, i) => i / 7);
  const given: unknown[] = [];
  const y = z.array(z.number());
  const model = defineModel({
    name: "large",
    input: z.object({ x: z.number() }),
    output: z.object({ y }),
    tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
    weights: "weights.pt",
    preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
    postprocess: () => ({ y: list }),
    demo: {
      output: z.object({ y }),
      async predict(inputs, { predict }) {
        const outputs = await predict(inputs);
        given.push(...outputs);
        return { outputs, demoOutputs: outputs };
      },
    },
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const pipeline = new ItemPipeline(model, fetcher);
  const flow = new ItemFlow(new InstantEngine(), pipeline);
  const { signal } = new AbortController();
  using turns = loopTurns();
  const { outputs, demoOutputs } = await runDemo([{ x: 1 }], { flow, pipeline, signal, take() {}, write: () => true });
  expect(given).toEqual([{ y: list }]);
  const text = JSON.stringify({ y: list });
  expect([...outputs, ...demoOutputs].map((made) => wholeText(made) === text)).toEqual([true, true]);
  expect(turns.count).toBeGreaterThan(4);
});

test("the time after all clients have left does not slow down the estimated rate", () => {
  let nowMs = 0;
  using _ = spyOn(performance, "now").mockImplementation(() => nowMs);
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const flow = new ItemFlow(new HeldEngine(), new ItemPipeline(anyModel, fetcher));
  const come = () =>
    Array.from({ length: 500 }, () => {
      const list = new ItemList(
        new ReadyInputs([{ x: 1 }]),
        { succeeded() {}, failed() {}, refused() {} },
        { isWaitedFor: true },
      );
      flow.run(list);
      return list;
    });
  const lists = come();
  nowMs += 100;
  for (const list of lists) flow.end(list);
  nowMs += 60_000;
  come();
  expect(flow.waitMs(true).waitMs).toBe(0);
});

test("a tensor is charged three times until its batch has ended, which limits the items in progress", () => {
  // The clock stands still, so the flow need not yield in this test.
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const model = defineModel({
    ...numbers,
    name: "large",
    tensors: { inputs: { x: float32(1000) }, outputs: { y: float32() } },
    preprocess: () => ({ x: tensor(new Float32Array(1000), [1000]) }),
    postprocess: () => ({ y: 1 }),
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  // Tensors may take up to 0.55 of the memory.
  const memory = new MemoryAccount({ maxBytes: 1_200_000 });
  const flow = new ItemFlow(engine, new ItemPipeline(model, fetcher), {
    maxReadyBytes: 2 ** 28,
    maxFetches: 32,
    pollShare: 0.1,
    memory,
  });
  const few = new ItemList(inputs(10), { succeeded() {}, failed() {} });
  flow.run(few);
  expect(memory.parts.tensors).toBe(10 * 3 * 4000);
  engine.finish();
  expect(memory.parts.tensors).toBe(0);
  flow.run(new ItemList(inputs(COUNT), { succeeded() {}, failed() {} }));
  expect(memory.parts.tensors).toBe(55 * 3 * 4000);
});

/** A flow whose engine holds all items. */
function heldFlow() {
  const fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(anyModel, fetcher));
  const come = (count: number, isWaitedFor = false) => {
    const list = new ItemList(inputs(count), { succeeded() {}, failed() {} }, { isWaitedFor });
    flow.run(list);
    return list;
  };
  const itemsOf = (list: ItemList) => engine.items.filter(({ lane }) => lane === list);
  return { engine, flow, come, itemsOf, [Symbol.dispose]: () => fetcher[Symbol.dispose]() };
}

test.each([
  ["waits for", true],
  ["comes back for", false],
])("a list with more inputs than may be ready does not delay the first input that a client %s", (_, isWaitedFor) => {
  // The clock stands still, so the flow need not yield in this test.
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const come = (count: number) => held.come(count, isWaitedFor);
  const readyOf = (list: ItemList) => held.itemsOf(list).length;
  const large = come(10_000);
  const mostReady = readyOf(large);
  expect(mostReady).toBeLessThan(1000);
  expect(held.flow.waitMs(isWaitedFor).waitMs).toBe(0);
  expect([come(1), come(5)].map(readyOf)).toEqual([1, 1]);
  // First items of predictions have the same limit as all items.
  const firsts = Array.from({ length: 2 * mostReady }, () => readyOf(come(1)));
  expect(firsts.filter((count) => count === 1).length).toBe(mostReady - 3);
  expect(readyOf(large)).toBe(mostReady);
});

test("a list with more inputs than may be ready does not delay the first inputs of small lists", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  held.come(10_000);
  const few = held.come(3);
  for (const count of [1, 2, 3]) {
    const items = held.itemsOf(few);
    expect(items.length).toBe(count);
    held.engine.listener?.dispatched(items.slice(-1));
  }
});

test("quarantined items leave space for other items, and may take a quarter of the bytes", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(anyModel, fetcher), {
    maxReadyBytes: 400,
    maxFetches: 1,
    pollShare: 0.1,
  });
  const [good, bad] = ["good", "bad"].map((address) => ({ address, name: "" }));
  for (let i = 0; i < 10; i++) flow.quarantine.ended(bad, true);
  let left = 0;
  const come = (client: typeof good, count: number) => {
    left += count;
    const succeeded = () => {
      left -= 1;
    };
    flow.run(new ItemList(inputs(count), { succeeded, failed() {} }, { client }));
  };
  come(good, 1);
  for (let i = 0; i < 50; i++) come(bad, 10);
  expect(flow.ready).toEqual({ items: 1 + 25, bytes: 4 * (1 + 25) });
  come(good, 200);
  expect(engine.items.filter(({ lane }) => lane.client === good)).toHaveLength(100);
  expect(flow.ready.items).toBe(100 + 25);
  for (let ended = 0; left > 0; ) {
    const batch = engine.items.slice(ended);
    expect(batch).not.toBeEmpty();
    ended += batch.length;
    engine.listener?.dispatched(batch);
    for (const item of batch) engine.listener?.finished(item, {});
  }
  expect(flow.ready).toEqual({ items: 0, bytes: 0 });
});

test("quarantined items overtake items that the model's code never finishes, as other items do", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const model = defineModel({
    ...numbers,
    name: "hangs",
    tensors,
    preprocess: ({ x }) => (x === 0 ? { x: tensor(Float32Array.of(x), []) } : new Promise<never>(() => {})),
    postprocess: () => ({ y: 1 }),
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(model, fetcher));
  const [good, bad, unlucky] = ["good", "bad", "unlucky"].map((address) => ({ address, name: "" }));
  for (let i = 0; i < 10; i++) for (const client of [bad, unlucky]) flow.quarantine.ended(client, true);
  const come = (client: typeof good, x: number, count: number) => {
    const all = Array.from({ length: count }, () => ({ x }));
    flow.run(new ItemList(new ReadyInputs(all), { succeeded() {}, failed() {} }, { client }));
  };
  come(good, 0, 1);
  for (let i = 0; i < 15; i++) come(bad, 1, 32);
  come(unlucky, 0, 1);
  expect(engine.items.filter(({ lane }) => lane.client === unlucky)).toHaveLength(1);
});

test("so do items of lists with one failed item", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const failing = Array.from({ length: 30 }, () => come(20));

  expect(flow.ready.items).toBeGreaterThanOrEqual(3 * 128);
  for (const list of failing) {
    const [first] = itemsOf(list);
    if (first === undefined) throw new Error("none was begun");
    engine.listener?.dispatched([first]);
    engine.listener?.failed(first, new SconceError("run_failed", "bad"));
  }
  const good = come(200);
  expect(itemsOf(good)).toHaveLength(200);
  for (const list of [...failing, good]) flow.end(list);
  expect(flow.ready).toEqual({ items: 0, bytes: 0 });
});

test("a list with one failed input still fills its batches", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const list = come(10_000);
  const [bad, ...good] = itemsOf(list);
  if (bad === undefined) throw new Error("none was begun");
  engine.listener?.dispatched([bad, ...good]);
  engine.listener?.failed(bad, new SconceError("run_failed", "bad"));
  for (const item of good) engine.listener?.finished(item, {});
  // These items started before the failure; later items start after it.
  engine.listener?.dispatched(itemsOf(list).slice(good.length + 1));
  expect(flow.ready.items).toBeGreaterThanOrEqual(engine.maxBatchSize);
  flow.end(list);
});
