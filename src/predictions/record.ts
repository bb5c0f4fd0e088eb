/** A prediction as plain data, which HTTP answers, stores and other processes read. */

import type { Text } from "../base/large-text.ts";
import { ModelVersion } from "../package/model-version.ts";

export type Kind = "prediction" | "demo";

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

type StoredRecord = Omit<PredictionRecord, "model"> & { readonly model?: string | undefined };

/** An ended record as JSON, for stores. @param members the members of the outcome; by default left out */
export function recordText(record: EndedRecord, members = ""): string {
  const { outcome, model } = record;
  const stored: StoredRecord = { ...record, outcome: { ...outcome, members }, model: model?.reference };
  return JSON.stringify(stored);
}

/** @param text result of `recordText`. @param members the members of the outcome, if `text` leaves them out */
export function recordOf(text: string, members?: Text): PredictionRecord {
  const { outcome, model, ...record }: StoredRecord = JSON.parse(text);
  return {
    ...record,
    outcome: outcome && { ...outcome, members: members ?? outcome.members },
    model: ModelVersion.of(model),
  };
}
