/** The results of a trial, which `check` prints. */
import type { BatchTimes } from "./batch-times.ts";
import type { ComparedReference } from "./compared-reference.ts";
import type { Finding } from "./finding.ts";

export interface Examination {
  readonly stages: { readonly stage: string; readonly ms: number }[];
  readonly batches: BatchTimes[];
  /** The smallest batch size with nearly the best throughput. */
  proposedBatchSize?: number | undefined;
  reference?: ComparedReference;
  device?: string;
  threads?: number;
  readonly findings: Finding[];
}

export function newExamination(): Examination {
  return { stages: [], batches: [], findings: [] };
}
