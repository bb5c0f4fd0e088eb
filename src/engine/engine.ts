/** The engine: takes an item's tensors, gives its rows. In this process or in another; everything crosses this interface as names and plain bytes. */
import type { SconceError } from "../errors.ts";
import type { BatchCause } from "../metrics/labels.ts";
import type { Tensor } from "../model/tensor.ts";
import type { Rows } from "./rows.ts";

export type { Rows } from "./rows.ts";

/** One input on its way through the engine. */
export interface Item {
  /** Whose item it is: lanes have their turns, and are cancelled as a whole. */
  readonly lane: object;
  /** It goes behind the items of others. */
  readonly isLate?: boolean;
  readonly index: number;
}

/** Who submits items. It is told of each item's end exactly once; after `cancel` of none of the lane. */
export interface EngineListener<T extends Item = Item> {
  /** These items were given to a runner: there is room for as many more. */
  dispatched(items: readonly T[]): void;
  /** @param rows views of memory that the item's neighbours share */
  finished(item: T, rows: Rows): void;
  failed(item: T, error: SconceError): void;
}

/** How a batch ran. */
export interface BatchRun {
  readonly size: number;
  /** Of its oldest item, from ready to dispatched. */
  readonly waitMs: number;
  /** From dispatched to done. */
  readonly runMs: number;
  readonly cause: BatchCause;
}

/** What an engine tells of its work, for metrics. */
export interface BatchObserver {
  ran(batch: BatchRun): void;
}

export interface Engine<T extends Item = Item> {
  /** Halved when a batch does not fit into the device's memory. */
  readonly maxBatchSize: number;
  readonly instances: number;
  /** Of the process that it is in; undefined for this one. */
  readonly pid: number | undefined;
  /** Whether items are run now; one in another process may be starting again. */
  readonly isReady: boolean;
  /** Set once, before the first item. */
  listener: EngineListener<T> | undefined;
  /**
   * Lets an item join a batch; its tensors are copied before this returns. Items of one lane keep their order among those with the same shape key.
   * @throws SconceError `tensor_invalid` when the tensors are not the declared ones
   */
  submit(item: T, tensors: Readonly<Record<string, Tensor>>): void;
  /** Takes a lane's items away. Running ones run on, for the sake of their neighbours. */
  cancel(lane: object): void;
  /** From now on no item waits for a fuller batch. */
  hurry(): void;
  /** Closes the runners. Items still there fail with `session_closed`. */
  close(): Promise<void>;
}
