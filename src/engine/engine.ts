/** The engine turns the tensors of an item into rows. The interface passes names and plain bytes only, so the engine may be another process. */

import type { Tensor } from "../author/tensor.ts";
import type { SconceError } from "../base/errors.ts";
import type { BatchCause } from "../base/labels.ts";
import type { Rows } from "./rows.ts";

export type { Rows } from "./rows.ts";

/** An input inside the engine. */
export interface Item {
  /** Lane of the item: all items of one prediction share one object. The queue serves lanes in turn. */
  readonly lane: object;
  /** Deprioritised: runs after the items of other lanes. */
  readonly isDeprioritised?: boolean;
  readonly index: number;
}

/** Receives the result of each submitted item exactly once, and no result of a cancelled lane. */
export interface EngineListener<T extends Item = Item> {
  /** The batch was dispatched; its queue slots are free. */
  dispatched(items: readonly T[]): void;
  /** Rows of a part of the item's output, before its result. After another `dispatched` the parts start over. */
  part?(item: T, rows: Rows): void;
  /** @param rows views of memory that the item's neighbours share */
  finished(item: T, rows: Rows): void;
  failed(item: T, error: SconceError): void;
  /** An engine process is ready: its batch size and instances may differ from those before. */
  started?(): void;
}

/** How a batch ran. */
export interface BatchRun {
  readonly size: number;
  /** Time of the oldest item from ready to dispatched, in milliseconds. */
  readonly waitMs: number;
  /** Time from dispatched to done, in milliseconds. */
  readonly runMs: number;
  readonly cause: BatchCause;
}

/** Receives the facts of each batch, for metrics. */
export interface BatchObserver {
  ran(batch: BatchRun): void;
}

export interface Engine<T extends Item = Item> {
  /** Halved when a batch does not fit into the device's memory. */
  readonly maxBatchSize: number;
  readonly instances: number;
  /** Process id of the engine; undefined for this process. */
  readonly pid: number | undefined;
  /** Whether items run now. An engine process may be restarting. */
  readonly isReady: boolean;
  /** Whether the engine process is stopped, or hangs. */
  readonly isSilent: boolean;
  /** Set once, before the first item. */
  listener: EngineListener<T> | undefined;
  /**
   * Queues an item for a batch. Copies its tensors before it returns. Items of one lane and shape key keep their order.
   * @throws SconceError `tensor_invalid` when the tensors are not the declared ones
   */
  submit(item: T, tensors: Readonly<Record<string, Tensor>>): void;
  /** Removes the queued items of a prediction, by its lane. Running items continue with their batch. */
  cancel(lane: object): void;
  /** Ends all waiting for fuller batches. */
  hurry(): void;
  /** Closes the runners. Unfinished items fail with `session_closed`. */
  close(): Promise<void>;
}
