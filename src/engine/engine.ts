/** Interface of the engine, which runs inputs through the model in batches. The engine may be another process. */

import type { Tensor } from "../author/tensor.ts";
import type { SconceError } from "../base/errors.ts";
import type { BatchCause } from "../base/labels.ts";
import type { Rows } from "./rows.ts";

export type { Rows } from "./rows.ts";

/** An input of a prediction, from its submission to its result. */
export interface Item {
  /** Object that all items of one prediction share. */
  readonly lane: object;
  /** Whether the item shares a batch only with other separate items. */
  readonly isSeparate?: boolean;
  readonly index: number;
}

/** Receives the result of each submitted item exactly once, and no result of a cancelled prediction. */
export interface EngineListener<T extends Item = Item> {
  /** The items leave the queue, and their batch starts. */
  dispatched(items: readonly T[]): void;
  /** The model yielded partial outputs of the item. If a failed batch runs again, all its partial outputs come again. */
  part?(item: T, rows: Rows): void;
  /**
   * The item has its outputs.
   * @param rows the outputs by name, in memory that no other item shares
   */
  finished(item: T, rows: Rows): void;
  failed(item: T, error: SconceError): void;
  /** A new engine process is ready. Its batch size and instances may differ from the previous process. */
  started?(): void;
}

export interface BatchRun {
  readonly size: number;
  readonly waitMs: number;
  readonly runMs: number;
  readonly cause: BatchCause;
}

export interface BatchObserver {
  ran(batch: BatchRun): void;
}

export interface Engine<T extends Item = Item> {
  /** Maximum items in a batch. Warm-up halves the requested size until a batch fits into the device's memory. */
  readonly maxBatchSize: number;
  readonly instances: number;
  /** Process id of the newest engine process; undefined before the first one, and for an engine in this process. */
  readonly pid: number | undefined;
  /** Whether items can run now; false without an engine process, and while it starts. */
  readonly isReady: boolean;
  /** Receives the results. Set it once, before the first item. */
  listener: EngineListener<T> | undefined;
  /**
   * Queues an item for a batch, and copies its tensors before the call returns. Items of one prediction and one shape
   * key keep their order.
   * @throws SconceError `tensor_invalid` when the tensors are not the declared ones, `run_failed` when the weights of
   * this process refuse their sizes in every batch
   */
  submit(item: T, tensors: Readonly<Record<string, Tensor>>): void;
  /**
   * Removes the queued items of a prediction, by its lane. Running items continue with their batch; of a model with
   * `step` they leave before the next step.
   */
  cancel(lane: object): void;
  /** Closes the runners, or the connection to the engine process. Unfinished items fail with `session_closed`. */
  close(): Promise<void>;
}
