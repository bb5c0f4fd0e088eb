/** Parses answers of Redis, and converts records to and from fields of a hash. */
import {
  type EndedRecord,
  fieldsOf,
  recordOf as fromFields,
  type PredictionRecord,
  type RecordFields,
} from "../record.ts";

/** The fields of a record in the hash of its prediction, in the order of `recordOf`. */
export const RECORD_FIELDS = [
  "id",
  "kind",
  "count",
  "created",
  "done",
  "started",
  "finished",
  "status",
  "members",
  "logs",
  "digest",
  "model",
] as const;

export function textOf(reply: unknown): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Buffer) return reply.toString();
  return reply instanceof Uint8Array ? Buffer.from(reply.buffer, reply.byteOffset, reply.length).toString() : "";
}

export function numberOf(reply: unknown): number {
  return typeof reply === "number" ? reply : Number(textOf(reply));
}

/** Returns an empty list for an answer that is no list. */
export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/** @param reply values of `RECORD_FIELDS`. @returns undefined for an unknown id */
export function recordOf(reply: unknown): PredictionRecord | undefined {
  const [id, kind, count, created, done, started, finished, status, members, logs, digest, model] =
    listOf(reply).map(textOf);
  if (!id) return undefined;
  return fromFields({
    id,
    kind: kind ?? "",
    count: Number(count),
    itemsDone: Number(done),
    createdAtMs: Number(created),
    startedAtMs: started ? Number(started) : null,
    finishedAtMs: finished ? Number(finished) : null,
    status: status || null,
    members: members ?? "",
    logs: logs ?? "",
    digest: digest ?? "",
    model: model ?? "",
  });
}

/** An ended record as the text of a notification. */
export function letterOf(record: EndedRecord): string {
  return JSON.stringify({ ...fieldsOf(record), members: String(record.outcome.members) });
}

export function recordOfLetter(text: string): PredictionRecord {
  const fields: RecordFields = JSON.parse(text);
  return fromFields(fields);
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
