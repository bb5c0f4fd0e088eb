/** Runs batches of plain bytes. A native session is a runner for its forward pass. */
import type { Tensor } from "../author/tensor.ts";

/** Receives the rows that a model's `predict` yields for a batch. */
export interface PartSink {
  /** Whether nobody needs the outputs of the batch: then `predict` stops at its next `yield`. */
  readonly isOver: boolean;
  /** @param rows one tensor for each declared part tensor, with the items as first dimension */
  part(rows: readonly Tensor[]): void;
}

/** The result of a step for one item: its next state, or its outputs. Tensors have no batch dimension. */
export interface Stepped {
  readonly part?: readonly Tensor[] | undefined;
  readonly outputs?: readonly Tensor[];
  readonly state?: unknown;
}

/** Advances items step by step, with one call at a time. */
export interface Stepper {
  /** @returns the state of an item before its first step */
  begin(tensors: readonly Tensor[]): Promise<unknown>;
  /** @returns a result for each state. After an error the states are as before. */
  step(states: readonly unknown[]): Promise<readonly Stepped[]>;
  /** Frees the tensors of all states except these. */
  free(states: readonly unknown[]): void;
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
  /** For a model with `step`. */
  readonly stepper?: Stepper;
  /** Runs a short first part of a batch, for warm-up; undefined if batches are short. */
  rehearse?(items: readonly (readonly Tensor[])[]): Promise<unknown>;
  /** Reports ended batches at once, without a turn of the event loop. */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** May be called twice. Waiting batches fail with `session_closed`. Resolves when the weights are freed. */
  dispose(): Promise<void>;
}
