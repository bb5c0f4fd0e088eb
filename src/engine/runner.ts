/** What runs batches. A native session is one: it runs them through its forward pass. Takes and gives plain bytes. */
import type { Tensor } from "../author/tensor.ts";

/** Runs one batch at a time, in the order given; one more may be given while one runs. */
export interface Runner {
  /**
   * @param items the input tensors of each item, in the order of the declared names
   * @returns one tensor for each declared output, with the items as first dimension
   */
  run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]>;
  /** The most items of a batch that the weights were made for; undefined where nobody knows. */
  readonly mostRows?: number;
  /** How many layers of the weights are packed; undefined where nobody knows. */
  readonly packedLayers?: number;
  /** Opens one more on the same weights, with as many threads; left out where two of them must not run at the same time. */
  readonly another?: (() => Promise<Runner>) | undefined;
  /** Tells at once of batches that have ended, which else waits for the event loop to turn. */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** May be called twice. Batches that wait are rejected with `session_closed`; resolves when the weights are freed. */
  dispose(): Promise<void>;
}
