/** The engine that runs batches in this process, without a separate engine process. */

import type { Tensor, TensorSpecs } from "../author/tensor.ts";
import type { SconceError } from "../base/errors.ts";
import type { BatchEngine, BatchEngineOptions, BatchItem } from "./batching/batch-engine.ts";
import { engineOver, type StepEngine } from "./batching/step-engine.ts";
import type { Engine, EngineListener, Item } from "./engine.ts";
import { type CheckedItem, copied, itemCheck, separateKey } from "./item-check.ts";
import { rowParting } from "./rows.ts";

export interface LocalEngineOptions extends Omit<BatchEngineOptions<BatchItem>, "listener"> {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** Declared tensors of partial outputs. Default: `outputs`. */
  readonly parts?: TensorSpecs;
}

interface LocalItem<T extends Item> extends BatchItem {
  readonly item: T;
}

export class LocalEngine<T extends Item> implements Engine<T> {
  readonly isReady = true;
  readonly isSilent = false;
  readonly pid = undefined;
  listener: EngineListener<T> | undefined;
  readonly #engine: BatchEngine<LocalItem<T>> | StepEngine<LocalItem<T>>;
  readonly #check: (given: Readonly<Record<string, Tensor>>) => CheckedItem;

  readonly #canceled = new WeakSet<object>();

  constructor({ inputs, outputs, parts = outputs, ...options }: LocalEngineOptions) {
    this.#check = itemCheck(inputs);
    const [rows, partRows] = [rowParting(outputs), rowParting(parts)];
    this.#engine = engineOver<LocalItem<T>>({
      ...options,
      listener: {
        dispatched: (items) => this.listener?.dispatched(items.map(({ item }) => item)),
        finished: (items, outputs) => {
          for (const [i, { item, padded }] of items.entries()) this.listener?.finished(item, rows(outputs, i, padded));
        },
        failed: ({ item, lane }, error: SconceError) => {
          if (!this.#canceled.has(lane)) this.listener?.failed(item, error);
        },
        part: (items, outputs) => {
          for (const [i, { item, padded }] of items.entries())
            this.listener?.part?.(item, partRows(outputs, i, padded));
        },
        isNeeded: (items) => items.some(({ lane }) => !this.#canceled.has(lane)),
      },
    });
  }

  get maxBatchSize(): number {
    return this.#engine.maxBatchSize;
  }

  get instances(): number {
    return this.#engine.instances;
  }

  submit(item: T, given: Readonly<Record<string, Tensor>>): void {
    const checked = this.#check(given);
    const tensors = copied(checked.tensors);
    const { lane, isSeparate } = item;
    this.#engine.submit({
      ...checked,
      tensors,
      item,
      lane,
      key: isSeparate ? separateKey(checked.key) : checked.key,
      readyAtMs: this.#engine.now(),
      dispatchedAtMs: 0,
    });
  }

  cancel(lane: object): void {
    this.#canceled.add(lane);
    this.#engine.cancel(lane);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}
