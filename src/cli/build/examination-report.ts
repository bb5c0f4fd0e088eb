/** The results of a trial, which `check` prints. */
import type { BatchTimes } from "./batch-times.ts";
import type { ComparedReference } from "./compared-reference.ts";
import type { Finding } from "./finding.ts";

/**
 * Largest difference between an output of the example and the same output in another run: alone a second time, in a
 * batch, and in a batch with a longer item. Undefined if the run was left out.
 */
interface Differences {
  readonly again: number;
  readonly together: number | undefined;
  readonly padded: number | undefined;
}

export interface Examination {
  readonly stages: { readonly stage: string; readonly ms: number }[];
  readonly batches: BatchTimes[];
  /** The smallest batch size with nearly the best throughput. */
  proposedBatchSize?: number | undefined;
  differences?: Differences;
  reference?: ComparedReference;
  device?: string;
  threads?: number;
  readonly findings: Finding[];
}

export function newExamination(): Examination {
  return { stages: [], batches: [], findings: [] };
}
