/** Item flows (fetch, preprocess, engine, postprocess) with engines that the test controls. */
import { defineModel, type Model, opened } from "../../src/author/define.ts";
import { float32, tensor } from "../../src/author/tensor.ts";
import { z } from "../../src/index.ts";
import { AddressGuard } from "../../src/machine/network/address-guard.ts";
import { Fetcher } from "../../src/pipeline/fetcher.ts";
import { ReadyInputs } from "../../src/pipeline/inputs/input-list.ts";
import { type FlowEngine, ItemFlow, type ItemFlowLimits } from "../../src/pipeline/item-flow.ts";
import type { ListItem } from "../../src/pipeline/item-list.ts";
import { ItemPipeline } from "../../src/pipeline/item-pipeline.ts";

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

/** The declaration of a model whose inputs and outputs are single numbers. A test changes some of its fields. */
export const numbers = {
  name: "any",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "none.pt",
  preprocess: ({ x }: { x: number }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: () => ({ y: 1 }),
};
export const anyModel = defineModel(numbers);

/** A flow of a model with this engine, and its pipeline. It may fetch files of private addresses. */
export function flowOf(
  model: Model,
  engine: FlowEngine = new InstantEngine(),
  limits?: ItemFlowLimits,
): ItemFlow & Disposable & { readonly pipeline: ItemPipeline } {
  const fetcher = new Fetcher({ guard: new AddressGuard({ allowPrivate: true }) });
  const pipeline = new ItemPipeline(opened(model), fetcher);
  const flow = new ItemFlow(engine, pipeline, limits);
  return Object.assign(flow, { pipeline, [Symbol.dispose]: () => fetcher[Symbol.dispose]() });
}

export const inputs = (count: number) => new ReadyInputs(Array.from({ length: count }, (_, x) => ({ x })));
