/** Requests and ended records of predictions, for tests of prediction stores. */
import type { EndedRecord, PredictionRecord } from "../../src/predictions/record.ts";
import type { PredictionRequest } from "../../src/predictions/request.ts";
import type { RetentionLimits } from "../../src/predictions/retention.ts";

export const keepAll: RetentionLimits = { maxAgeMs: 3_600_000, maxBytes: 1e9 };

type StoredRequest = PredictionRequest & { readonly body: string | Uint8Array<ArrayBuffer> };

/** A request to store. Its body contains its id. */
export function requestOf(id: string, changes: Partial<StoredRequest> = {}): StoredRequest {
  const body = JSON.stringify([id]);
  return { id, kind: "prediction", count: 1, createdAtMs: 1000, timeoutMs: 60_000, body, ...changes };
}

/** The record of an ended prediction. Its outcome contains its id. */
export function endOf(id: string, changes: Partial<EndedRecord> = {}): EndedRecord {
  const times = { createdAtMs: 1000, startedAtMs: 2000, finishedAtMs: 3000 };
  const outcome = { status: "success", members: `"outputs":[${JSON.stringify(id)}]` } as const;
  return { id, kind: "prediction", count: 1, itemsDone: 1, ...times, outcome, logs: "", ...changes };
}

/** The record of an ended prediction. Its outcome has slightly more than `bytes` bytes. */
export function largeEndOf(id: string, bytes: number): EndedRecord {
  return endOf(id, { outcome: { status: "success", members: `"outputs":["${id}${"x".repeat(bytes)}"]` } });
}

/** The record with its outcome as one string, in whatever form the store returned it. */
export function asText(record: PredictionRecord | undefined): PredictionRecord | undefined {
  const { outcome } = record ?? {};
  return record && { ...record, outcome: outcome && { ...outcome, members: String(outcome.members) } };
}
