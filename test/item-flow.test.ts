/**
 * The item flow, which prepares inputs and makes outputs, yields to the event loop, however slow the model's code is.
 */
import { expect, spyOn, test } from "bun:test";
import { defineModel } from "../src/author/define.ts";
import { ModelFile } from "../src/author/file.ts";
import { tensor } from "../src/author/tensor.ts";
import { file, z } from "../src/index.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemList, type ListItem } from "../src/pipeline/item-list.ts";
import { wholeText } from "../src/pipeline/output-encoder.ts";
import { runDemo } from "../src/pipeline/run-demo.ts";
import { anyModel, flowOf, HeldEngine, InstantEngine, inputs, numbers } from "./helpers/held-engine.ts";
import { hold } from "./helpers/hold.ts";
import { busy, loopTurns, nextTurn } from "./helpers/loop-turns.ts";

const COUNT = 200;

test("even if the device takes no time, the event loop turns before all inputs are prepared", async () => {
  let prepared = 0;
  const model = defineModel({
    ...numbers,
    preprocess: ({ x }) => {
      // Half a millisecond per input: all inputs together would block the event loop far longer than the flow may.
      const end = performance.now() + 0.5;
      while (performance.now() < end);
      prepared += 1;
      return numbers.preprocess({ x });
    },
  });
  using flow = flowOf(model);
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  let left = COUNT;
  const list = new ItemList(inputs(COUNT), {
    succeeded: () => {
      left -= 1;
      if (left === 0) resolve();
    },
    failed: (_, error) => reject(error),
  });
  flow.run(list);
  // `run` returns while most inputs are unprepared, so the event loop turns.
  expect(prepared).toBeLessThan(COUNT / 2);
  await done;
  expect(prepared).toBe(COUNT);
});

test("while outputs of a batch are slow, the event loop turns", async () => {
  const model = defineModel({
    ...numbers,
    postprocess: () => {
      busy(2);
      return { y: 1 };
    },
  });
  const engine = new HeldEngine();
  using flow = flowOf(model, engine);
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
  for (let i = 0; flow.credits.ready.items < COUNT && i < COUNT; i++) await nextTurn();
  engine.finish();
  expect(made).toBeLessThan(COUNT / 2);
  await large.promise;
  expect(made).toBe(COUNT);
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
      postprocess: (_, { input: { x } }) => {
        if (x === 0) for (const end = performance.now() + firstMs; performance.now() < end; );
        return x < 0 ? { y: 1 } : slow.promise.then(() => ({ y: 1 }));
      },
    });
    // Memory for the output rows of a hundred items.
    using flow = flowOf(model, new RowsEngine(), { maxReadyBytes: 400, maxFetches: 1 });
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
    // Enough turns of the event loop for the flow to start all items that it may start.
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    await new Promise<void>((resolve) => flow.run(new ItemList(new ReadyInputs([{ x: -1 }]), receiver(resolve))));
    expect(left).toBe(COUNT);
    slow.resolve();
    await all.promise;
  },
);

test("a demo gets large outputs as the model returned them, and the event loop turns while they become JSON", async () => {
  const list = Array.from({ length: 200_000 }, (_, i) => i / 7);
  const given: unknown[] = [];
  const y = z.array(z.number());
  const model = defineModel({
    ...numbers,
    output: z.object({ y }),
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
  using flow = flowOf(model);
  const { pipeline } = flow;
  const { signal } = new AbortController();
  using turns = loopTurns();
  const { outputs, demoOutputs } = await runDemo([{ x: 1 }], { flow, pipeline, signal, take() {}, write: () => true });
  expect(given).toEqual([{ y: list }]);
  const text = JSON.stringify({ y: list });
  expect([...outputs, ...demoOutputs].map((made) => wholeText(made) === text)).toEqual([true, true]);
  expect(turns.count).toBeGreaterThan(4);
});

test("clients take turns at their downloads, however many files of one client wait", async () => {
  await using held = hold();
  const model = defineModel({
    ...numbers,
    input: z.object({ x: file() }),
    preprocess: () => numbers.preprocess({ x: 1 }),
  });
  using flow = flowOf(model, new InstantEngine(), { maxReadyBytes: 2 ** 20, maxFetches: 1 });
  const order: string[] = [];
  const ended = ["a1", "a2", "a3", "b1"].map(
    (name) =>
      new Promise<void>((resolve) => {
        const fetched = new ModelFile({ url: held.url(name) });
        const done = () => {
          order.push(name);
          resolve();
        };
        const sender = { address: name.slice(0, 1), name: "" };
        const list = new ItemList(new ReadyInputs([{ x: fetched }]), { succeeded: done, failed: done }, { sender });
        flow.run(list);
      }),
  );
  expect(flow.needsSender).toBe(true);
  for (const name of ["a1", "a2", "a3", "b1"]) held.release(name);
  await Promise.all(ended);
  expect(order).toEqual(["a1", "a2", "b1", "a3"]);
});

test("the time after all clients have left does not lower the estimated rate", () => {
  let nowMs = 0;
  using _ = spyOn(performance, "now").mockImplementation(() => nowMs);
  using flow = flowOf(anyModel, new HeldEngine());
  const come = () =>
    Array.from({ length: 500 }, () => {
      const list = new ItemList(new ReadyInputs([{ x: 1 }]), { succeeded() {}, failed() {} });
      flow.run(list);
      return list;
    });
  const lists = come();
  nowMs += 100;
  for (const list of lists) flow.end(list);
  nowMs += 60_000;
  come();
  expect(flow.waitMs()).toBe(0);
});

test("while the queue stands, an input does not begin whose time limit ends before a batch would", () => {
  let nowMs = 0;
  using _ = spyOn(performance, "now").mockImplementation(() => nowMs);
  const engine = new HeldEngine();
  using flow = flowOf(anyModel, engine);
  flow.run(new ItemList(inputs(10_000), { succeeded() {}, failed() {} }));
  for (let batch = 0; batch < 10; batch++) {
    nowMs += 1000;
    engine.listener?.dispatched(engine.items.slice(128 * batch, 128 * (batch + 1)));
  }
  const ends: [limitMs: number, end: string][] = [];
  for (const limitMs of [500, 5000]) {
    const receiver = {
      processing: () => ends.push([limitMs, "begun"]),
      succeeded() {},
      failed() {},
      expired: () => ends.push([limitMs, "expired"]),
    };
    flow.run(new ItemList(inputs(1), receiver, { deadlineMs: nowMs + limitMs }));
  }
  expect(ends).toEqual([
    [500, "expired"],
    [5000, "begun"],
  ]);
});
