/** The engine that runs batches in this process, without a separate engine process. */

import type { Tensor, TensorSpecs } from "../author/tensor.ts";
import { systemClock } from "../base/clock.ts";
import type { BatchItem, Batching, BatchingOptions } from "./batching/batching.ts";
import { openBatching } from "./batching/open-batching.ts";
import type { BatchObserver, Engine, EngineListener, Item } from "./engine.ts";
import { type CheckedItem, copied, itemCheck, separateKey } from "./item-check.ts";
import { rowParting } from "./rows.ts";

export interface LocalEngineOptions extends BatchingOptions {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** Declared tensors of partial outputs. Default: `outputs`. */
  readonly parts?: TensorSpecs;
  readonly observer?: BatchObserver | undefined;
  /** Called when a lack of device memory limits the batches of a shape for a time. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
}

interface LocalItem<T extends Item> extends BatchItem {
  readonly item: T;
}

export class LocalEngine<T extends Item> implements Engine<T> {
  readonly isReady = true;
  readonly pid = undefined;
  listener: EngineListener<T> | undefined;
  readonly #options: LocalEngineOptions;
  readonly #batching: Batching<LocalItem<T>>;
  readonly #check: (given: Readonly<Record<string, Tensor>>) => CheckedItem;
  readonly #canceled = new WeakSet<object>();

  constructor(options: LocalEngineOptions) {
    const { inputs, outputs, parts = outputs, observer, onShrink } = options;
    this.#options = options;
    this.#check = itemCheck(inputs);
    const [rows, partRows] = [rowParting(outputs), rowParting(parts)];
    this.#batching = openBatching<LocalItem<T>>(options, {
      dispatched: (items) => this.listener?.dispatched(items.map(({ item }) => item)),
      part: (items, outputs) => {
        for (const [i, { item, padded }] of items.entries()) this.listener?.part?.(item, partRows(outputs, i, padded));
      },
      finished: (items, outputs) => {
        for (const [i, { item, padded }] of items.entries()) this.listener?.finished(item, rows(outputs, i, padded));
      },
      failed: ({ item }, error) => {
        if (!this.#canceled.has(item.lane)) this.listener?.failed(item, error);
      },
      ran: (batch) => observer?.ran(batch),
      shrunk: (maxBatchSize) => onShrink?.(maxBatchSize),
      isNeeded: ({ item }) => !this.#canceled.has(item.lane),
    });
  }

  get maxBatchSize(): number {
    return this.#options.maxBatchSize;
  }

  get instances(): number {
    return this.#options.runners.length;
  }

  submit(item: T, given: Readonly<Record<string, Tensor>>): void {
    const checked = this.#check(given);
    const tensors = copied(checked.tensors);
    const { lane, isSeparate } = item;
    this.#batching.submit({
      ...checked,
      tensors,
      item,
      lane,
      key: isSeparate ? separateKey(checked.key) : checked.key,
      readyAtMs: (this.#options.clock ?? systemClock).now(),
    });
  }

  cancel(lane: object): void {
    this.#canceled.add(lane);
    this.#batching.removeUnneeded();
  }

  close(): Promise<void> {
    return this.#batching.close();
  }
}
