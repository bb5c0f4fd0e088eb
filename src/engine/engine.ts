/** Items of the engine, their results, and the times of batches. */

import type { SconceError } from "../base/errors.ts";
import type { BatchCause } from "../base/labels.ts";
import type { Rows } from "./rows.ts";

/** An input of a prediction, from its submission to its result. */
export interface Item {
  /** Number that all items of one prediction share. */
  readonly lane: number;
  /** Count of waiting items of the same prediction when this item was submitted. */
  readonly ahead?: number;
  /** Whether the item shares a batch only with other separate items. */
  readonly isSeparate?: boolean;
  readonly index: number;
  /** Number of the item in frames. The engine sets it. */
  number?: number;
}

/** Receives the result of each submitted item exactly once, and no result of a cancelled item. */
export interface EngineListener<T extends Item = Item> {
  /** The items left the queue, and their batch started `agoMs` milliseconds ago (default 0). */
  dispatched(items: readonly T[], agoMs?: number): void;
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
