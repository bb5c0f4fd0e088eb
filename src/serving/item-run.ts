/** Inputs on their way to outputs: what the service needs to know to bring them there in turn with those of all others. */
import type { ItemSink, Rows } from "../engine/engine.ts";
import type { InRing } from "../engine/ring.ts";

export interface ItemRun extends ItemSink, InRing<ItemRun> {
  readonly count: number;
  /** Index of the next input that has not been begun. */
  next: number;
  /** Whether nobody waits for the items any more. */
  readonly isOver: boolean;
  /** Fires when nobody waits for the items any more. */
  readonly signal: AbortSignal;
  /** Whether every item has come to its end, so that there is nothing left to take away. */
  readonly isComplete: boolean;
  input(index: number): unknown;
  /** Calls the model's code for an item. */
  scope<T>(task: () => T): T;
  /**
   * @param output what the model made of the item's rows, not yet checked against the declared output
   * @throws SconceError `output_invalid`
   */
  itemSucceeded(index: number, output: unknown): void;
}

/** Turns an item's rows into its output; told of both in the end. */
export type RowsHandler = (run: ItemRun, index: number, rows: Rows) => void;
