/** Runs batches of plain bytes. A native session is a runner for its forward pass. */
import type { Tensor } from "../author/tensor.ts";

/** Receives the rows that a model's `predict` yields for a batch. */
export interface PartSink {
  /** Whether nobody needs the outputs of the batch: then `predict` stops at its next `yield`. */
  readonly isOver: boolean;
  /** @param rows one tensor for each declared part tensor, with the items as first dimension */
  part(rows: readonly Tensor[]): void;
}

/** Runs one batch at a time, in order. A second batch may be given while one runs. */
export interface Runner {
  /**
   * @param items the input tensors of each item, in the order of the declared names
   * @param parts receives parts before the outputs; by default parts are dropped
   * @returns one tensor for each declared output, with the items as first dimension
   * @throws SconceError `canceled` if `parts.isOver`
   */
  run(items: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]>;
  /** The largest batch of the weights, if known. */
  readonly mostRows?: number;
  /** Count of packed layers, if known. */
  readonly packedLayers?: number;
  /** Opens another runner on the same weights, with as many threads; undefined if the two must not run at the same time. */
  readonly another?: (() => Promise<Runner>) | undefined;
  /** Reports ended batches at once, without a turn of the event loop. */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** May be called twice. Waiting batches fail with `session_closed`. Resolves when the weights are freed. */
  dispose(): Promise<void>;
}
