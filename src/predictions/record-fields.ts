/** Records as flat fields, as stores write them. */
import type { Text } from "./large-text.ts";
import { ModelVersion } from "./model-version.ts";
import { type EndedRecord, kindOf, type PredictionRecord } from "./record.ts";

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
