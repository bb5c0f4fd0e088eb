/** Parses answers of Redis, and converts records to and from fields of a hash. */
import { LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import { type EndedRecord, kindOf, type PredictionRecord } from "../record.ts";
import { recordOf as fromFields } from "../record-fields.ts";
import { originOf, type PredictionRequest } from "../request.ts";
import { webhookOf } from "../webhooks/webhook.ts";

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

/** The values of `RECORD_FIELDS`. @param finishedAtMs time of the end by Redis' clock */
export function valuesOf(record: EndedRecord, finishedAtMs: number): readonly string[] {
  const { id, kind, count, createdAtMs, itemsDone, outcome, logs, digest, model } = record;
  const { status, members } = outcome;
  const startedAtMs = record.startedAtMs && finishedAtMs - Math.max(0, record.finishedAtMs - record.startedAtMs);
  const values = [id, kind, count, createdAtMs, itemsDone, startedAtMs, finishedAtMs, status, members, logs, digest];
  return [...values, model?.reference].map((value) => String(value ?? ""));
}

/** An entry of a Redis stream. `fields` alternates names and values. */
export interface StreamEntry {
  readonly id: string;
  readonly fields: readonly unknown[];
}

/** The entries in an answer of XREAD or XREADGROUP for one stream; none after a timeout. */
export function entriesOf(reply: unknown): StreamEntry[] {
  const [stream] = listOf(reply);
  return listOf(listOf(stream)[1]).map(entryOf);
}

export function entryOf(entry: unknown): StreamEntry {
  const [id, fields] = listOf(entry);
  return { id: textOf(id), fields: listOf(fields) };
}

/** A stream entry of an unfinished prediction. */
export interface ClaimedEntry extends Omit<PredictionRequest, "body" | "leftMs" | "deaths" | "model"> {
  readonly deadlineMs: number;
  /** Size of the body. */
  readonly bytes: number;
  /** Empty for a large body, which is in the hash of the prediction. */
  readonly body: unknown;
}

export function claimedOf({ fields }: StreamEntry): ClaimedEntry {
  const values = fields.filter((_, i) => i % 2 === 1);
  const [id = "", kind, count, bytes, timeout, created, deadline, front, digest, origin = "", webhook] = values
    .slice(0, -1)
    .map(textOf);
  return {
    id,
    kind: kindOf(kind),
    count: Number(count),
    createdAtMs: Number(created),
    deadlineMs: Number(deadline),
    timeoutMs: Number(timeout),
    isWaitedFor: front !== "",
    digest: digest || undefined,
    origin: originOf(origin),
    webhook: webhook ? webhookOf(webhook) : undefined,
    bytes: Number(bytes),
    body: values.at(-1),
  };
}

/** Copies a large body, because other answers share its buffer and the body is transferred to a thread. A small body becomes a string. */
export function bodyOf(reply: unknown): Uint8Array<ArrayBuffer> | string {
  return reply instanceof Uint8Array && reply.length > LARGE_BYTES ? new Uint8Array(reply) : textOf(reply);
}
