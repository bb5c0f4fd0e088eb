/** Runners get full batches, even while the event loop is busy. */
import { expect, test } from "bun:test";
import { type Tensor, tensor } from "../src/author/tensor.ts";
import { systemClock } from "../src/base/clock.ts";
import { openBatching } from "../src/engine/batching/batcher.ts";
import type { BatchItem } from "../src/engine/batching/batching.ts";
import { fixedKey } from "../src/engine/item-check.ts";
import type { Runner } from "../src/engine/runner.ts";
import { nextTurn } from "./helpers/loop-turns.ts";

/**
 * A runner whose outputs equal its inputs. A batch runs until the test calls `end`, and the engine learns of its end at
 * `settle` or at the next turn of the event loop.
 */
class HeldRunner implements Runner {
  readonly sizes: number[] = [];
  readonly #running: (() => void)[] = [];
  #ended: (() => void)[] = [];

  run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]> {
    this.sizes.push(items.length);
    const { promise, resolve } = Promise.withResolvers<readonly Tensor[]>();
    const data = Float32Array.from(items, ([x]) => Number(x?.data[0]));
    this.#running.push(() => resolve([tensor(data, [items.length])]));
    return promise;
  }

  /** Ends the oldest batch without a report, like a device that finishes while JavaScript is busy. */
  end(): void {
    const oldest = this.#running.shift();
    if (oldest !== undefined) this.#ended.push(oldest);
  }

  settle(): void {
    const ended = this.#ended;
    this.#ended = [];
    for (const tell of ended) tell();
  }

  async setThreads(): Promise<void> {}
  async dispose(): Promise<void> {}
}

function started(maxBatchSize: number) {
  const runner = new HeldRunner();
  const done: number[] = [];
  const batching = openBatching<BatchItem & { readonly index: number }>(
    {
      runners: [runner],
      maxBatchSize,
      maxQueueDelayMs: 0,
      // The clock stands still: with real time, the moment of dispatch would depend on the duration of the last batch.
      clock: { ...systemClock, now: () => 0 },
    },
    {
      dispatched: () => {},
      part: () => {},
      finished: (items) => void done.push(...items.map(({ index }) => index)),
      failed: (_, error) => {
        throw error;
      },
      isNeeded: () => true,
    },
  );
  let next = 0;
  const submit = (count: number) => {
    for (let i = 0; i < count; i++) {
      batching.submit({
        ...fixedKey,
        index: next++,
        lane: 0,
        tensors: [tensor(Float32Array.of(i), [])],
        readyAtMs: 0,
        ahead: 0,
        place: 0,
      });
    }
  };
  return { runner, done, submit };
}

test("a full batch starts while items are still being submitted; incomplete batches wait for the rest", () => {
  const { runner, submit } = started(4);
  submit(3);
  expect(runner.sizes).toEqual([]);
  submit(2);
  expect(runner.sizes).toEqual([4]);
  submit(3);
  expect(runner.sizes).toEqual([4, 4]);
});

test("the end of a batch starts the next full batch without a turn of the event loop", async () => {
  const { runner, done, submit } = started(4);
  submit(12);
  expect(runner.sizes).toEqual([4, 4]);
  runner.end();
  submit(1);
  // Runs promise callbacks without a turn of the event loop.
  await Promise.resolve();
  await Promise.resolve();
  expect(runner.sizes).toEqual([4, 4, 4]);
  expect(done).toEqual([0, 1, 2, 3]);
});

test("an incomplete batch starts when the event loop turns", async () => {
  const { runner, submit } = started(4);
  submit(2);
  await nextTurn();
  expect(runner.sizes).toEqual([2]);
});
