/**
 * Interface of an object that runs batches of tensors: a session of the native addon, or a model's own `predict` or
 * `step`.
 */
import type { Tensor } from "../author/tensor.ts";

/** Receives the partial outputs that a model's `predict` or `step` gives for a batch. */
export interface PartSink {
  /** Whether no client needs the outputs any more. `predict` then stops at its next `yield`. */
  readonly isOver: boolean;
  /**
   * Receives yielded rows. @param rows one tensor for each tensor that the model yields, with the items as first
   * dimension
   */
  part(rows: readonly Tensor[]): void;
}

/**
 * The result of a step for one item: its next state or its outputs, and optional partial outputs (`part`). Tensors have
 * no batch dimension.
 */
export interface Stepped {
  readonly part?: readonly Tensor[] | undefined;
  readonly outputs?: readonly Tensor[];
  readonly state?: unknown;
}

/** Calls a model's `begin` and `step` functions. Callers wait for each call before the next. */
export interface Stepper {
  /** Calls `begin` for an item. @returns the state of the item before its first step */
  begin(tensors: readonly Tensor[]): Promise<unknown>;
  /** Calls `step` once for several items. @returns a result for each state. After an error the states are as before. */
  step(states: readonly unknown[]): Promise<readonly Stepped[]>;
  free(states: readonly unknown[]): void;
}

/** Runs batches one after the other. Callers may hand over the next batch while one runs. */
export interface Runner {
  /**
   * Runs a batch.
   * @param items the input tensors of each item, in the order of the declared names
   * @param parts receives partial outputs; by default they are dropped
   * @returns one tensor for each declared output, with the items as first dimension
   * @throws SconceError `canceled` if `parts.isOver` before a part
   */
  run(items: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]>;
  /**
   * Checks an item before it is queued. Undefined for runners that accept every declared size.
   * @throws SconceError `run_failed` for sizes that the weights refuse in every batch
   */
  checkItem?(tensors: readonly Tensor[]): void;
  /** Maximum rows in a batch that the weights accept; undefined if unknown. */
  readonly mostRows?: number;
  /** Count of layers whose weights were rearranged for the processor; undefined if unknown. */
  readonly packedLayers?: number;
  /** Set only for a model with a `step` function. */
  readonly stepper?: Stepper;
  /** Runs only the first step of a batch, for warm-up. Undefined for a model without `step`. */
  rehearse?(items: readonly (readonly Tensor[])[]): Promise<unknown>;
  /** Resolves the promises of ended batches now, before the event loop would. */
  settle(): void;
  setThreads(threads: number): Promise<void>;
  /** Frees the weights. Waiting batches fail with `session_closed`. May be called twice. */
  dispose(): Promise<void>;
}
