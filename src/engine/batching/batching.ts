/** Interface of the part of the engine that forms batches and runs them on the runners of this process. */

import type { Tensor } from "../../author/tensor.ts";
import type { Clock } from "../../base/clock.ts";
import type { SconceError } from "../../base/errors.ts";
import type { BatchRun } from "../engine.ts";
import type { CheckedItem } from "../item-check.ts";
import type { Runner } from "../runner.ts";
import type { LatencyTarget } from "./latency-target.ts";

export interface BatchItem extends CheckedItem {
  /** Equal for all items of one prediction. */
  readonly lane: unknown;
  /** When the item became ready, in milliseconds of the clock. */
  readonly readyAtMs: number;
  /** Count of waiting items of the same prediction when this item became ready. */
  readonly ahead: number;
  /**
   * Place in the queue: the count of items that the queue has started, plus `ahead`. So the first item of a prediction
   * goes before the later items of a long prediction. The queue assigns the place.
   */
  place?: number;
  /**
   * The item was running when an engine process died, and may be the cause. Such an item runs alone, before other
   * items, while all other runners are idle.
   */
  readonly isAlone?: boolean;
}

/** Receives exactly one result for each queued item; removed items get none. The receiver submits no items in these calls. */
export interface BatchListener<T extends BatchItem> {
  /**
   * The items leave the queue, and their batch starts. Items of a failed batch may be dispatched again.
   * @param isBrief whether the batch may take less than a millisecond, as the last batch of its runner did; false for
   * items that ran before
   */
  dispatched(items: readonly T[], isBrief: boolean): void;
  /**
   * The model yielded partial outputs of the batch.
   * @param rows one tensor for each tensor that the model yields, with a row for each item, in order
   */
  part(items: readonly T[], rows: readonly Tensor[]): void;
  /** The batch ran. @param outputs one tensor for each declared output, with a row for each item, in order */
  finished(items: readonly T[], outputs: readonly Tensor[]): void;
  /** The item failed alone in its batch, or with an error that smaller batches cannot avoid. */
  failed(item: T, error: SconceError): void;
  /** A batch or a step ran, before its items are reported. */
  ran?(batch: BatchRun): void;
  /** A batch did not fit into the device's memory. For a time, batches of its shape have at most this many items. */
  shrunk?(maxBatchSize: number): void;
  /** Whether a client needs the output of the item. An item that nobody needs does not run again. */
  isNeeded(item: T): boolean;
  /**
   * Whether all results of this process have been sent (default true). An item that may crash the process waits for
   * that. The owner calls `pump` once they are sent.
   */
  isHeard?(): boolean;
}

export interface BatchingOptions {
  readonly runners: readonly Runner[];
  readonly maxBatchSize: number;
  /** Limit in bytes for the padded inputs of a batch. A single larger item still runs, alone. */
  readonly maxPaddedBytes?: number | undefined;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly clock?: Clock | undefined;
}

export interface Batching<T extends BatchItem> {
  /** Count of waiting items. */
  readonly length: number;
  /** Longest time in milliseconds since a running batch began or last yielded partial outputs; 0 if no batch runs. */
  readonly runningForMs: number;
  /**
   * Queues an item. It starts at the end of this turn of the event loop at the earliest, so that items of one turn share
   * a batch, or once its batch is full.
   * @throws SconceError `run_failed` for sizes that the weights refuse in every batch
   */
  submit(item: T): void;
  /**
   * Removes the queued items that nobody needs. Running ones continue; of a model with `step` they leave before the
   * next step, and fail with `canceled`.
   */
  removeUnneeded(): T[];
  /** Starts what may start now. Call this once all results are sent, if `isHeard` was false. */
  pump(): void;
}
