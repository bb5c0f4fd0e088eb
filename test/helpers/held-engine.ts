/** Engines and inputs for tests of the item flow: fetch, preprocess, engine, postprocess. */
import { defineModel } from "../../src/author/define.ts";
import { float32, tensor } from "../../src/author/tensor.ts";
import { z } from "../../src/index.ts";
import { ReadyInputs } from "../../src/pipeline/inputs/input-list.ts";
import type { FlowEngine } from "../../src/pipeline/item-flow.ts";
import type { ListItem } from "../../src/pipeline/item-list.ts";

/** An engine that accepts every item at once, and takes no time for a batch. */
export class InstantEngine implements FlowEngine {
  readonly maxBatchSize: number = 1;
  readonly instances = 1;
  listener: FlowEngine["listener"];

  submit(item: ListItem): void {
    this.listener?.dispatched([item]);
    this.listener?.finished(item, {});
  }

  cancel(): void {}
}

/** An engine whose items do not end until the test calls `finish`. */
export class HeldEngine extends InstantEngine {
  override readonly maxBatchSize: number = 128;
  readonly #items: ListItem[] = [];

  override submit(item: ListItem): void {
    this.#items.push(item);
  }

  /** All submitted items. */
  get items(): readonly ListItem[] {
    return this.#items;
  }

  finish(): void {
    this.listener?.dispatched(this.#items);
    for (const item of this.#items) this.listener?.finished(item, {});
  }
}

export const anyModel = defineModel({
  name: "any",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "none.pt",
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: () => ({ y: 1 }),
});

export const numbers = { input: z.object({ x: z.number() }), output: z.object({ y: z.number() }), weights: "none.pt" };
export const tensors = { inputs: { x: float32() }, outputs: { y: float32() } };
export const preprocess = ({ x }: { x: number }) => ({ x: tensor(Float32Array.of(x), []) });
export const inputs = (count: number) => new ReadyInputs(Array.from({ length: count }, (_, x) => ({ x })));
