/** Parses answers of Redis. */
import { type PredictionRecord, pendingRecord, recordOf } from "../record.ts";

/** The fields of a record in the hash of its prediction, in the order of `recordIn`. */
export const RECORD_FIELDS = ["id", "kind", "count", "created", "started", "logs", "digest", "ended"];

export function textOf(reply: unknown): string {
  if (typeof reply === "string") return reply;
  return reply instanceof Buffer ? reply.toString() : "";
}

export function numberOf(reply: unknown): number {
  return typeof reply === "number" ? reply : Number(textOf(reply));
}

/** Returns an empty list for an answer that is no list. */
export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/** @param reply values of `RECORD_FIELDS`. @returns undefined for an unknown id */
export function recordIn(reply: unknown): PredictionRecord | undefined {
  const [id, kind = "", count, created, started, logs = "", digest = "", ended] = listOf(reply).map(textOf);
  if (!id) return undefined;
  if (ended) return recordOf(ended);
  const facts = { id, kind: kind === "demo" ? "demo" : "prediction", count: Number(count) } as const;
  const record = pendingRecord({ ...facts, createdAtMs: Number(created), digest: digest || undefined });
  return { ...record, startedAtMs: started ? Number(started) : undefined, logs };
}

/** An entry of a Redis stream. */
export interface StreamEntry {
  readonly id: string;
  /** Names and values by turns. */
  readonly fields: readonly string[];
}

/** The entries in an answer of XREAD or XREADGROUP for one stream; none after a timeout. */
export function entriesOf(reply: unknown): StreamEntry[] {
  const [stream] = listOf(reply);
  return listOf(listOf(stream)[1]).map(entryOf);
}

export function entryOf(entry: unknown): StreamEntry {
  const [id, fields] = listOf(entry);
  return { id: textOf(id), fields: listOf(fields).map(textOf) };
}
