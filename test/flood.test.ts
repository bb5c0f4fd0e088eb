/** A prediction beside one with very many inputs: the front gives turns, and the engine runs items in their order. */
import { expect, test } from "bun:test";
import { opened } from "../src/author/define.ts";
import { type Tensor, tensor } from "../src/author/tensor.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher } from "../src/pipeline/fetcher.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemFlow } from "../src/pipeline/item-flow.ts";
import { ItemList, type ListItem } from "../src/pipeline/item-list.ts";
import { ItemPipeline } from "../src/pipeline/item-pipeline.ts";
import { anyModel, inputs, tensors } from "./helpers/held-engine.ts";

test("one input waits for at most three batches after the running one while another client has 10,000 inputs", async () => {
  const batches: number[][] = [];
  const runner = {
    async run(items: readonly (readonly Tensor[])[]) {
      batches.push(items.map(([x]) => Number(x?.data[0])));
      await new Promise((resolve) => setImmediate(resolve));
      return [tensor(new Float32Array(items.length), [items.length])];
    },
    settle() {},
    async setThreads() {},
    async dispose() {},
  };
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const engine = new LocalEngine<ListItem>({ ...tensors, runners: [runner], maxBatchSize: 16, maxQueueDelayMs: 0 });
  const flow = new ItemFlow(engine, new ItemPipeline(opened(anyModel), fetcher));
  const flood = new ItemList(
    inputs(10_000),
    { succeeded() {}, failed() {} },
    { sender: { address: "10.0.0.1", name: "" } },
  );
  flow.run(flood);
  while (batches.length < 20) await new Promise((resolve) => setImmediate(resolve));
  const before = batches.length;
  await new Promise<void>((resolve, reject) => {
    const receiver = { succeeded: () => resolve(), failed: (_: number, error: Error) => reject(error) };
    flow.run(new ItemList(new ReadyInputs([{ x: -1 }]), receiver, { sender: { address: "10.0.0.2", name: "" } }));
  });
  expect(batches.findIndex((values) => values.includes(-1)) - before).toBeLessThanOrEqual(3);
  flow.end(flood);
  await engine.close();
});
