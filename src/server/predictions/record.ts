/** A prediction as data: everything that an answer, a store or another process reads of it, and nothing that runs. */

import type { Text } from "./large-text.ts";

export type Kind = "prediction" | "demo";
export type Status = "pending" | "running" | "success" | "failed";

/** How a prediction ended, as JSON text: formatted once, exact in bytes. */
export interface Outcome {
  readonly status: "success" | "failed";
  /** Members of the record's JSON object, without braces: outputs, or error message, errors and partial outputs. */
  readonly members: Text;
}

/** Once it has an outcome nothing about it changes any more. */
export interface PredictionRecord {
  readonly id: string;
  readonly kind: Kind;
  /** Inputs of the request. */
  readonly count: number;
  /** Inputs that have succeeded or failed. */
  readonly itemsDone: number;
  /** Milliseconds since 1970, as clients are told; time limits and retention are not measured by it. */
  readonly createdAtMs: number;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
  readonly outcome: Outcome | undefined;
  /** What a demo wrote so far; empty for others. */
  readonly logs: string;
  /** Of its kind and body, where its client chose the id. */
  readonly digest?: string | undefined;
}

/** A record that has ended. */
export interface EndedRecord extends PredictionRecord {
  readonly finishedAtMs: number;
  readonly outcome: Outcome;
}

/** A prediction that was just accepted. */
export function pendingRecord({
  id,
  kind,
  count,
  createdAtMs,
  digest,
}: Pick<PredictionRecord, "id" | "kind" | "count" | "createdAtMs" | "digest">): PredictionRecord {
  return {
    id,
    kind,
    count,
    itemsDone: 0,
    createdAtMs,
    startedAtMs: undefined,
    finishedAtMs: undefined,
    outcome: undefined,
    logs: "",
    digest,
  };
}

export function statusOf({ outcome, startedAtMs }: PredictionRecord): Status {
  if (outcome !== undefined) return outcome.status;
  return startedAtMs === undefined ? "pending" : "running";
}

export function hasEnded(record: PredictionRecord): record is EndedRecord {
  return record.outcome !== undefined;
}
