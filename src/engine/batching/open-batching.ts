import { Batcher } from "./batcher.ts";
import type { BatchItem, Batching, BatchingOptions, BatchListener } from "./batching.ts";
import { StepBatcher } from "./step-batcher.ts";

/** Forms batches for these runners: of steps if the model has `step`, otherwise of whole items. */
export function openBatching<T extends BatchItem>(options: BatchingOptions, listener: BatchListener<T>): Batching<T> {
  const steppers = options.runners.flatMap(({ stepper }) => stepper ?? []);
  return steppers.length === 0 ? new Batcher(options, listener) : new StepBatcher(options, listener, steppers);
}
