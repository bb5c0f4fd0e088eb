/** A prediction as plain data, which HTTP answers, stores and other processes read. */

import type { Text } from "./large-text.ts";
import { ModelVersion } from "./model-version.ts";

export type Kind = "prediction" | "demo";

/** The kind of a stored prediction: `demo`, or `prediction` for any other text. */
export function kindOf(text: string | undefined): Kind {
  return text === "demo" ? "demo" : "prediction";
}
export const predictionStatuses = ["pending", "running", "success", "failed"] as const;
export type Status = (typeof predictionStatuses)[number];

/** The error message of a canceled prediction. */
export const CANCELED = "Canceled";

/** The result of a prediction, as JSON text. */
export interface Outcome {
  readonly status: "success" | "failed";
  /** Members of the answer's JSON: `outputs`, or `error_message`, `errors` and `partial_outputs`. Without braces. */
  readonly members: Text;
}

/** The state of a prediction. When the prediction has an outcome, its state no longer changes. */
export interface PredictionRecord {
  readonly id: string;
  readonly kind: Kind;
  /** Number of inputs in the request. */
  readonly count: number;
  /** Number of inputs that have succeeded or failed. */
  readonly itemsDone: number;
  /** Milliseconds since 1970, shown to clients. Time limits and retention use a monotonic clock instead. */
  readonly createdAtMs: number;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number | undefined;
  readonly outcome: Outcome | undefined;
  /** Log lines of a demo prediction; empty for other predictions. */
  readonly logs: string;
  /** Digest of the kind and the body; set if the client chose the id. */
  readonly digest?: string | undefined;
  /** The model version that runs the prediction. Undefined in a Redis queue until the end, and for old releases. */
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

/** A record as flat fields, as stores write it. */
export interface RecordFields {
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  readonly itemsDone: number;
  readonly createdAtMs: number;
  /** Null for a prediction that ended before its first input ran. */
  readonly startedAtMs: number | null;
  /** Null for an unfinished prediction, as `status`. */
  readonly finishedAtMs: number | null;
  readonly status: string | null;
  readonly members: Text;
  readonly logs: string;
  /** Empty if the server chose the id. */
  readonly digest: string;
  /** Version of the model, `repository@sha256:…`; empty if it is unknown. */
  readonly model: string;
}

export function fieldsOf({ outcome, startedAtMs, digest = "", model, ...record }: EndedRecord): RecordFields {
  const { status, members } = outcome;
  return { ...record, startedAtMs: startedAtMs ?? null, status, members, digest, model: model?.reference ?? "" };
}

export function recordOf(fields: RecordFields): PredictionRecord {
  const { id, kind, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, status, members, logs } = fields;
  return {
    id,
    kind: kindOf(kind),
    count,
    itemsDone,
    createdAtMs,
    startedAtMs: startedAtMs ?? undefined,
    finishedAtMs: finishedAtMs ?? undefined,
    outcome: status === "success" || status === "failed" ? { status, members } : undefined,
    logs,
    digest: fields.digest || undefined,
    model: ModelVersion.of(fields.model),
  };
}
