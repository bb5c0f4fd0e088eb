/** Credits of the item flow: how many items it may prepare before their batches, and how clients share them. */
import { expect, spyOn, test } from "bun:test";
import { defineModel, opened } from "../src/author/define.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher } from "../src/pipeline/fetcher.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemFlow } from "../src/pipeline/item-flow.ts";
import { ItemList } from "../src/pipeline/item-list.ts";
import { ItemPipeline } from "../src/pipeline/item-pipeline.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import type { Sender } from "../src/pipeline/quarantine.ts";
import { anyModel, HeldEngine, inputs, numbers, tensors } from "./helpers/held-engine.ts";

const COUNT = 200;

test("a tensor is charged three times until its batch has ended, which limits the number of prepared items", () => {
  // With a clock that stands still, the flow never has to yield to the event loop.
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
  // 0.55 of this memory is for tensors.
  const memory = new MemoryAccount({ maxBytes: 1_200_000 });
  const flow = new ItemFlow(engine, new ItemPipeline(opened(model), fetcher), {
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

/** A flow whose engine never ends an item, so that prepared items can be counted. */
function heldFlow() {
  const fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(opened(anyModel), fetcher));
  const come = (count: number, isWaitedFor = false, client?: Sender) => {
    const list = new ItemList(inputs(count), { succeeded() {}, failed() {} }, { isWaitedFor, client });
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
  // With a clock that stands still, the flow never has to yield to the event loop.
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const come = (count: number) => held.come(count, isWaitedFor);
  const readyOf = (list: ItemList) => held.itemsOf(list).length;
  const large = come(10_000);
  const mostReady = readyOf(large);
  expect(mostReady).toBeLessThan(1000);
  expect(held.flow.waitMs()).toBe(0);
  expect([come(1), come(5)].map(readyOf)).toEqual([1, 1]);
  // At most `mostReady` lists can have prepared items. The three lists above already have some.
  const firsts = Array.from({ length: 2 * mostReady }, () => readyOf(come(1)));
  expect(firsts.filter((count) => count === 1).length).toBe(mostReady - 3);
  expect(readyOf(large)).toBe(mostReady);
});

test("while two large predictions take turns, the one of a key with share 3 prepares three inputs for each of the other", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const lists = [
    held.come(10_000, true, { address: "key a", name: "1", share: 3 }),
    held.come(10_000, true, { address: "10.0.0.2", name: "1" }),
  ];
  const counts = () => lists.map((list) => held.itemsOf(list).length);
  const before = counts();
  held.engine.finish();
  const [key = 0, other = 0] = counts().map((count, i) => count - (before[i] ?? 0));
  expect(other).toBeGreaterThan(50);
  expect(Math.abs(key - 3 * other)).toBeLessThanOrEqual(3);
});

test("a prediction may have 32 pending preprocess calls, one of a key with a share that many times more, at most 128", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const model = defineModel({
    ...numbers,
    name: "slow",
    tensors,
    preprocess: () => new Promise<never>(() => {}),
    postprocess: () => ({ y: 1 }),
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const flow = new ItemFlow(new HeldEngine(), new ItemPipeline(opened(model), fetcher));
  const pending = [undefined, 3, 100].map((share) => {
    const client: Sender = { address: `${share}`, name: "1", ...(share && { share }) };
    const list = new ItemList(inputs(1000), { succeeded() {}, failed() {} }, { client });
    flow.run(list);
    return list.preparing;
  });
  expect(pending).toEqual([32, 96, 128]);
});

test("a list with more inputs than may be prepared does not delay the first inputs of small lists", () => {
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

test("items of clients whose items fail (quarantined items) leave space for other items, and may take a quarter of the bytes", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new HeldEngine();
  const flow = new ItemFlow(engine, new ItemPipeline(opened(anyModel), fetcher), {
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
  expect(flow.credits.ready).toEqual({ items: 1 + 25, bytes: 4 * (1 + 25) });
  come(good, 200);
  expect(engine.items.filter(({ lane }) => lane.client === good)).toHaveLength(100);
  expect(flow.credits.ready.items).toBe(100 + 25);
  for (let ended = 0; left > 0; ) {
    const batch = engine.items.slice(ended);
    expect(batch).not.toBeEmpty();
    ended += batch.length;
    engine.listener?.dispatched(batch);
    for (const item of batch) engine.listener?.finished(item, {});
  }
  expect(flow.credits.ready).toEqual({ items: 0, bytes: 0 });
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
  const flow = new ItemFlow(engine, new ItemPipeline(opened(model), fetcher));
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

test("lists with several failed items leave space for other items, too", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const failing = Array.from({ length: 30 }, () => come(20));

  expect(flow.credits.ready.items).toBeGreaterThanOrEqual(3 * 128);
  for (const list of failing) {
    const some = itemsOf(list).slice(0, 5);
    expect(some).toHaveLength(5);
    engine.listener?.dispatched(some);
    for (const item of some) engine.listener?.failed(item, new SconceError("run_failed", "bad"));
  }
  const good = come(200);
  expect(itemsOf(good)).toHaveLength(200);
  for (const list of [...failing, good]) flow.end(list);
  expect(flow.credits.ready).toEqual({ items: 0, bytes: 0 });
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
  // The flow has prepared these items after the failure. Once they are dispatched, it prepares at least a full batch
  // more.
  engine.listener?.dispatched(itemsOf(list).slice(good.length + 1));
  expect(flow.credits.ready.items).toBeGreaterThanOrEqual(engine.maxBatchSize);
  flow.end(list);
});
