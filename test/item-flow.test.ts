/** The flow of items lets others have their turn, however long the model's code takes for each input. */
import { expect, test } from "bun:test";
import type { Engine } from "../src/engine/engine.ts";
import { AddressGuard } from "../src/fetching/address-guard.ts";
import { Fetcher } from "../src/fetching/fetcher.ts";
import { z } from "../src/index.ts";
import { ReadyInputs } from "../src/inputs/input-list.ts";
import { defineModel } from "../src/model/define.ts";
import { float32, tensor } from "../src/model/tensor.ts";
import { ItemFlow } from "../src/serving/item-flow.ts";
import { ItemList, type ListItem } from "../src/serving/item-list.ts";
import { ItemPipeline } from "../src/serving/item-pipeline.ts";

/** A device that takes no time: there is always room for the next item. */
class InstantEngine implements Engine<ListItem> {
  readonly pid = undefined;
  readonly maxBatchSize = 1;
  readonly instances = 1;
  readonly isReady = true;
  listener: Engine<ListItem>["listener"];

  submit(item: ListItem): void {
    this.listener?.dispatched([item]);
    this.listener?.finished(item, {});
  }

  cancel(): void {}
  hurry(): void {}
  async close(): Promise<void> {}
}

const COUNT = 200;

test("inputs of a device that takes no time are not all prepared before the event loop turns", async () => {
  let prepared = 0;
  const model = defineModel({
    name: "slow",
    input: z.object({ x: z.number() }),
    output: z.object({ y: z.number() }),
    tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
    weights: "none.pt",
    preprocess: ({ x }) => {
      // All of them together take far longer than the flow may hold the loop.
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
  // Control has come back: the loop turns now, with most of them still to come.
  expect(prepared).toBeLessThan(COUNT / 2);
  await done;
  expect(prepared).toBe(COUNT);
});
