/** The engine in this process. */
import type { SconceError } from "../errors.ts";
import type { Tensor, TensorSpecs } from "../model/tensor.ts";
import { BatchEngine, type BatchEngineOptions, type BatchItem } from "./batch-engine.ts";
import type { Engine, EngineListener, Item } from "./engine.ts";
import { type CheckedItem, copied, itemCheck } from "./item-check.ts";
import { rowParting } from "./rows.ts";

export interface LocalEngineOptions extends Omit<BatchEngineOptions<BatchItem>, "listener"> {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
}

interface LocalItem extends BatchItem, Item {}

export class LocalEngine implements Engine {
  readonly isReady = true;
  listener: EngineListener | undefined;
  readonly #engine: BatchEngine<LocalItem>;
  readonly #check: (given: Readonly<Record<string, Tensor>>) => CheckedItem;

  constructor({ inputs, outputs, ...options }: LocalEngineOptions) {
    this.#check = itemCheck(inputs);
    const rows = rowParting(outputs);
    this.#engine = new BatchEngine<LocalItem>({
      ...options,
      listener: {
        dispatched: (items) => this.listener?.dispatched(items),
        finished: (items, outputs) => {
          for (const [i, item] of items.entries()) this.listener?.finished(item, rows(outputs, i, item.padded));
        },
        failed: (item, error: SconceError) => this.listener?.failed(item, error),
      },
    });
  }

  get maxBatchSize(): number {
    return this.#engine.maxBatchSize;
  }

  get instances(): number {
    return this.#engine.instances;
  }

  get ready(): { items: number; bytes: number } {
    return this.#engine.ready;
  }

  submit({ lane, index }: Item, tensors: Readonly<Record<string, Tensor>>, heldBytes = 0): void {
    const checked = this.#check(tensors);
    this.#engine.submit({
      ...checked,
      tensors: copied(checked.tensors),
      lane,
      index,
      bytes: checked.bytes + heldBytes,
      readyAtMs: this.#engine.now(),
      dispatchedAtMs: 0,
    });
  }

  cancel(lane: object): void {
    this.#engine.cancel(lane);
  }

  hurry(): void {
    this.#engine.hurry();
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}
