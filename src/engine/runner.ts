/** What runs batches: opens weights, runs, disposes. Takes and gives plain bytes, so that it can move to a child process. */
import type { Predict } from "../model/session.ts";
import type { Tensor, TensorSpecs } from "../model/tensor.ts";

export interface RunnerOptions {
  /** Paths of the weights, by the names of their sessions; TorchScript or AOTInductor, told apart by content. */
  readonly weights: Readonly<Record<string, string>>;
  /** Paths of libraries with operators that the weights call. */
  readonly operators: readonly string[];
  /** Undefined: batches go through the forward pass of the only weights. */
  readonly predict: Predict | undefined;
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** `cpu` or `cuda:N` */
  readonly device: string;
  readonly threads: number;
  /** How many runners are opened side by side on the device; they share the weights. */
  readonly instances: number;
}

/** Runs one batch at a time, in the order given; one more may be given while one runs. */
export interface Runner {
  /**
   * @param items the input tensors of each item, in the order of the declared names
   * @returns one tensor for each declared output, with the items as first dimension
   */
  run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]>;
  /** Tells at once of batches that have ended, which else waits for the event loop to turn. */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** May be called twice. Batches that wait are rejected with `session_closed`; resolves when the weights are freed. */
  dispose(): Promise<void>;
}
