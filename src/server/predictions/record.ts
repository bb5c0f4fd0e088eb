/** A prediction as plain data: all that answers, stores and other processes read. */

import type { Text } from "./large-text.ts";
import type { ModelVersion } from "./model-version.ts";

export type Kind = "prediction" | "demo";
export type Status = "pending" | "running" | "success" | "failed";

/** The error message of a canceled prediction. */
export const CANCELED = "Canceled";

/** The result of a prediction as JSON text, formatted once. */
export interface Outcome {
  readonly status: "success" | "failed";
  /** Members of the record's JSON object, without braces: `outputs`, or `error_message`, `errors` and `partial_outputs`. */
  readonly members: Text;
}

/** A record with an outcome never changes again. */
export interface PredictionRecord {
  readonly id: string;
  readonly kind: Kind;
  /** Inputs of the request. */
  readonly count: number;
  /** Inputs that have succeeded or failed. */
  readonly itemsDone: number;
  /** Milliseconds since 1970, for clients. Time limits and retention use a monotonic clock. */
  readonly createdAtMs: number;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
  readonly outcome: Outcome | undefined;
  /** Log lines of a demo. Empty for the kind `prediction`. */
  readonly logs: string;
  /** Digest of kind and body; set for an id that the client chose. */
  readonly digest?: string | undefined;
  /** The build that runs or ran the prediction. Undefined until a replica of a queue ends it, and for records of earlier releases. */
  readonly model?: ModelVersion | undefined;
}

export interface EndedRecord extends PredictionRecord {
  readonly finishedAtMs: number;
  readonly outcome: Outcome;
}

export function pendingRecord({
  id,
  kind,
  count,
  createdAtMs,
  digest,
  model,
}: Pick<PredictionRecord, "id" | "kind" | "count" | "createdAtMs" | "digest" | "model">): PredictionRecord {
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
    model,
  };
}

export function statusOf({ outcome, startedAtMs }: PredictionRecord): Status {
  if (outcome !== undefined) return outcome.status;
  return startedAtMs === undefined ? "pending" : "running";
}

export function hasEnded(record: PredictionRecord): record is EndedRecord {
  return record.outcome !== undefined;
}
