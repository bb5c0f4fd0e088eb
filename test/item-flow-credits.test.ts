/** Credits of the item flow: how many items it may prepare before their batches, and how clients share them. */
import { expect, spyOn, test } from "bun:test";
import { defineModel } from "../src/author/define.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { Sender } from "../src/pipeline/client.ts";
import { ItemList } from "../src/pipeline/item-list.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { slots } from "../src/server/metrics/counts.ts";
import { Metrics } from "../src/server/metrics/metrics.ts";
import { anyModel, flowOf, HeldEngine, inputs, numbers } from "./helpers/held-engine.ts";

const COUNT = 200;
const limits = { maxReadyBytes: 2 ** 28, maxFetches: 32 };

test("a tensor is charged three times until its batch has ended, which limits the number of prepared items", () => {
  // With a clock that stands still, the flow never has to yield to the event loop.
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const model = defineModel({
    ...numbers,
    tensors: { inputs: { x: float32(1000) }, outputs: { y: float32() } },
    preprocess: () => ({ x: tensor(new Float32Array(1000), [1000]) }),
  });
  const engine = new HeldEngine();
  // 0.55 of this memory is for tensors.
  const memory = new MemoryAccount({ maxBytes: 1_200_000 });
  using flow = flowOf(model, engine, { ...limits, memory });
  const few = new ItemList(inputs(10), { succeeded() {}, failed() {} });
  flow.run(few);
  expect(memory.parts.tensors).toBe(10 * 3 * 4000);
  engine.finish();
  expect(memory.parts.tensors).toBe(0);
  flow.run(new ItemList(inputs(COUNT), { succeeded() {}, failed() {} }));
  expect(memory.parts.tensors).toBe(55 * 3 * 4000);
});

/**
 * A flow whose engine never ends an item, so that prepared items can be counted. By default its
 * clock stands still, so that it never has to yield to the event loop.
 */
function heldFlow(now = () => 0) {
  const ends = new DisposableStack();
  ends.use(spyOn(performance, "now").mockImplementation(now));
  const engine = new HeldEngine();
  const flow = ends.use(flowOf(anyModel, engine));
  const come = (count: number, sender?: Sender) => {
    const list = new ItemList(inputs(count), { succeeded() {}, failed() {} }, { sender });
    flow.run(list);
    return list;
  };
  const itemsOf = (list: ItemList) => engine.items.filter((item) => item.list === list);
  return { engine, flow, come, itemsOf, [Symbol.dispose]: () => ends.dispose() };
}

test("a late report of a batch counts its items as running from the start of the batch", () => {
  using held = heldFlow(() => 1000);
  held.come(1);
  held.flow.dispatched(held.engine.items, 10);
  expect(held.engine.items.map(({ dispatchedAtMs }) => dispatchedAtMs)).toEqual([990]);
});

test("two batches are prepared ahead; the first item of a later prediction goes to the engine at once", () => {
  using held = heldFlow();
  const large = held.come(10_000);
  expect(held.itemsOf(large).map(({ ahead }) => ahead)).toEqual([...Array(2 * held.engine.maxBatchSize).keys()]);
  const lists = [held.come(1), held.come(5)];
  expect(lists.map((list) => held.itemsOf(list).length)).toEqual([1, 1]);
  held.engine.listener?.dispatched(held.itemsOf(large).slice(0, 4));
  // Two places are free again, and the two predictions take turns.
  expect(lists.map((list) => held.itemsOf(list).length)).toEqual([1, 2]);
  expect(held.itemsOf(large).length).toBe(2 * held.engine.maxBatchSize + 1);
});

/** The addresses of one prediction each. */
const addresses = (count: number): Sender[] => Array.from({ length: count }, (_, i) => ({ address: `${i}`, name: "" }));

test("at most half a batch of predictions begin out of turn; the next ones do so later, in the order of their arrival", () => {
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const large = come(10_000);
  const half = engine.maxBatchSize / 2;
  const small = addresses(half + 2).map((sender) => come(1, sender));
  // The long prediction is one of them.
  const begun = half - 1;
  expect(small.map((list) => itemsOf(list).length)).toEqual([...Array(begun).fill(1), 0, 0, 0]);
  const [first] = small.flatMap(itemsOf);
  engine.listener?.dispatched(first === undefined ? [] : [first]);
  expect(small.map((list) => itemsOf(list).length)).toEqual([...Array(begun + 1).fill(1), 0, 0]);
  for (const list of [large, ...small]) flow.end(list);
});

test("no prediction of an address with many unfinished ones begins out of turn, and its wait is expected to be long", () => {
  let nowMs = 0;
  using held = heldFlow(() => nowMs);
  const { engine, flow, come, itemsOf } = held;
  come(100_000);
  for (let at = 0; nowMs < 2000; at += engine.maxBatchSize) {
    nowMs += 100;
    engine.listener?.dispatched(engine.items.slice(at, at + engine.maxBatchSize));
  }
  const [many = { address: "many", name: "" }] = addresses(1);
  const lists = Array.from({ length: engine.maxBatchSize }, (_, i) => come(1, { ...many, name: `${i}` }));
  expect(lists.filter((list) => itemsOf(list).length > 0).length).toBe(engine.maxBatchSize / 2 - 1);
  expect(flow.waitMs({ sender: many })).toBeGreaterThan(100);
  const [few] = lists.flatMap(itemsOf);
  engine.listener?.dispatched(few === undefined ? [] : [few]);
  expect(flow.waitMs({ sender: many })).toBeGreaterThan(100);
  const other: Sender = { address: "other", name: "" };
  // Predictions pass until the address has half a batch of them.
  for (let i = 1; i <= engine.maxBatchSize / 2; i++) {
    expect(flow.waitMs({ sender: other })).toBe(0);
    const list = come(1, other);
    expect(itemsOf(list).length).toBe(1);
    engine.listener?.dispatched(itemsOf(list));
  }
  expect(flow.waitMs({ sender: other })).toBeGreaterThan(100);
  expect(itemsOf(come(1, other)).length).toBe(0);
});

test("of clients whose items often fail, no prediction begins out of turn", () => {
  using held = heldFlow();
  const bad: Sender = { address: "bad", name: "" };
  for (let i = 0; i < 20; i++) {
    const list = held.come(1, bad);
    const [item] = held.itemsOf(list);
    if (item === undefined) throw new Error("no item");
    held.engine.listener?.dispatched([item]);
    held.engine.listener?.failed(item, new SconceError("run_failed", "bad"));
    held.flow.end(list);
  }
  held.come(10_000);
  expect(held.itemsOf(held.come(1, bad)).length).toBe(0);
  expect(held.itemsOf(held.come(1)).length).toBe(1);
});

test.each([
  [100, 1],
  [10, 2],
  [5, 4],
])("while a batch takes %d ms, %d batches are prepared ahead", (batchMs, batches) => {
  let nowMs = 0;
  using held = heldFlow(() => nowMs);
  const { engine, flow, come } = held;
  const list = come(100_000);
  for (let at = 0; nowMs < 2000; at += engine.maxBatchSize) {
    nowMs += batchMs;
    engine.listener?.dispatched(engine.items.slice(at, at + engine.maxBatchSize));
  }
  expect(Math.round(flow.credits.ready.items / engine.maxBatchSize)).toBe(batches);
  flow.end(list);
});

test("fronts divide the two batches: each has its part, and one front uses what the others leave", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const rows = [0, 1].map(() => new Float64Array(slots.length));
  using owned = new DisposableStack();
  const [first, second] = [0, 1].map((row) => {
    const [engine, inFronts] = [new HeldEngine(), new Metrics(rows, row)];
    const flow = owned.use(flowOf(anyModel, engine, { ...limits, fronts: 2, inFronts }));
    const list = new ItemList(inputs(10_000), { succeeded() {}, failed() {} });
    return { engine, flow, list };
  });
  if (first === undefined || second === undefined) throw new Error("two fronts");
  const batch = first.engine.maxBatchSize;
  first.flow.run(first.list);
  expect(first.flow.credits.ready.items).toBe(2 * batch);
  second.flow.run(second.list);
  expect(second.flow.credits.ready.items).toBe(batch);
  first.engine.listener?.dispatched(first.engine.items.slice(0, batch));
  expect(first.flow.credits.ready.items).toBe(batch);
  first.flow.end(first.list);
  second.engine.listener?.dispatched(second.engine.items.slice(0, 1));
  expect(second.flow.credits.ready.items).toBe(2 * batch);
});

test("while two large predictions take turns, the one of a key with share 3 prepares three inputs for each of the other", () => {
  using held = heldFlow();
  const lists = [
    held.come(10_000, { address: "key a", name: "1", share: 3 }),
    held.come(10_000, { address: "10.0.0.2", name: "1" }),
  ];
  const counts = () => lists.map((list) => held.itemsOf(list).length);
  const before = counts();
  held.engine.finish();
  const [key = 0, other = 0] = counts().map((count, i) => count - (before[i] ?? 0));
  expect(other).toBeGreaterThan(50);
  expect(Math.abs(key - 3 * other)).toBeLessThanOrEqual(3);
});

test("a prediction may have 32 pending preprocess calls", () => {
  using _clock = spyOn(performance, "now").mockImplementation(() => 0);
  const model = defineModel({ ...numbers, preprocess: () => new Promise<never>(() => {}) });
  using flow = flowOf(model, new HeldEngine());
  const list = new ItemList(inputs(1000), { succeeded() {}, failed() {} });
  flow.run(list);
  expect(list.preparing).toBe(32);
});

test("of clients whose items fail, one batch at most is in the engine, in a batch without items of others", () => {
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const [good, bad] = ["good", "bad"].map((address) => ({ address, name: "" }));
  const first = come(10, bad);
  engine.listener?.dispatched(itemsOf(first));
  for (const item of itemsOf(first)) engine.listener?.failed(item, new SconceError("run_failed", "bad"));
  const many = Array.from({ length: 50 }, () => come(10, bad));
  const others = come(100, good);
  const separate = engine.items.filter(({ isSeparate }) => isSeparate);
  expect(separate.length).toBe(engine.maxBatchSize);
  expect(separate.every(({ list }) => many.includes(list))).toBe(true);
  expect(itemsOf(others).length).toBe(100);
  engine.listener?.dispatched(separate);
  for (const item of separate.slice(1)) engine.listener?.failed(item, new SconceError("run_failed", "bad"));
  expect(engine.items.filter(({ isSeparate }) => isSeparate).length).toBe(separate.length);
  for (const item of separate.slice(0, 1)) engine.listener?.failed(item, new SconceError("run_failed", "bad"));
  expect(engine.items.filter(({ isSeparate }) => isSeparate).length).toBeGreaterThan(separate.length);
  for (const list of [first, ...many, others]) flow.end(list);
  expect(flow.credits.ready).toEqual({ items: 0, bytes: 0 });
  expect(flow.credits.isSeparateFull).toBe(false);
});

test("a list with one failed input still fills its batches", () => {
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

test("items that fail before their batch, since the weights refuse their sizes, make room for the next inputs", () => {
  using held = heldFlow();
  const { engine, flow, come, itemsOf } = held;
  const list = come(10_000);
  const first = itemsOf(list);
  for (const item of first) engine.listener?.failed(item, new SconceError("run_failed", "refused"));
  expect(itemsOf(list).length).toBeGreaterThan(first.length);
  flow.end(list);
});
