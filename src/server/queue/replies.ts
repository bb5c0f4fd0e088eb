/** Parses answers of Redis. */
import { LARGE_BYTES } from "../inputs/bodies.ts";
import { ModelVersion } from "../predictions/model-version.ts";
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import { originOf, type UnfinishedRequest } from "../predictions/store.ts";
import { webhookOf } from "../webhooks/webhook.ts";

const LINE_BREAK = 10;

export function textOf(reply: unknown): string {
  if (reply instanceof Buffer) return reply.toString();
  return reply instanceof Uint8Array ? Buffer.from(reply.buffer, reply.byteOffset, reply.length).toString() : "";
}

export function numberOf(reply: unknown): number {
  return typeof reply === "number" ? reply : Number(textOf(reply));
}

function bytesOf(reply: unknown): Uint8Array {
  return reply instanceof Uint8Array ? reply : new Uint8Array();
}

/** Returns an empty list for an answer that is no list. */
export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/**
 * A record from Redis. `membersNode` is set if the members of the outcome are in the bucket: the id of the replica that stored them there. The
 * members of the record are then empty.
 */
export interface ReadRecord {
  readonly record: PredictionRecord;
  readonly membersNode: string | undefined;
}

/** @param reply a first line with the fields, then logs and members, as the Lua scripts write them; null for an unknown id */
export function recordOf(reply: unknown): ReadRecord | null {
  if (!(reply instanceof Uint8Array)) return null;
  const [head, texts] = partsOf(reply);
  const fields = head.split(" ");
  const [id = "", kind, count, , , created, done, started, finished, status, membersNode, logBytes, model = ""] =
    fields;
  const members = () => textOf(texts.subarray(Number(logBytes)));
  return {
    record: {
      id,
      kind: kindOf(kind),
      count: Number(count),
      itemsDone: Number(done),
      createdAtMs: Number(created),
      startedAtMs: started ? Number(started) : undefined,
      finishedAtMs: finished ? Number(finished) : undefined,
      outcome: status === "success" || status === "failed" ? { status, members: members() } : undefined,
      logs: textOf(texts.subarray(0, Number(logBytes))),
      model: ModelVersion.of(model),
    },
    membersNode: membersNode || undefined,
  };
}

/** Splits bytes into the first line and the rest. */
function partsOf(bytes: Uint8Array): [string, Uint8Array] {
  const end = bytes.indexOf(LINE_BREAK);
  return [textOf(bytes.subarray(0, end)), bytes.subarray(end + 1)];
}

function kindOf(text: string | undefined): Kind {
  return text === "demo" ? "demo" : "prediction";
}

/** Where a body is: in the entry of its prediction (""), in a Redis key, or in the bucket. */
export type Place = "" | "redis" | "bucket";

export interface ClaimedEntry {
  readonly request: UnfinishedRequest;
  /** Size of the body. */
  readonly bytes: number;
  readonly place: Place;
}

/** Parses an entry of the stream of unfinished predictions. The body is empty if it is not in the entry. */
export function claimedOf({ fields }: StreamEntry, nowMs: number): ClaimedEntry {
  const [, head, , kept] = fields;
  const [id = "", kind, count, bytes, timeout, place, isWaitedFor, created, deadline] = textOf(head).split(" ");
  const request = {
    id,
    kind: kindOf(kind),
    count: Number(count),
    createdAtMs: Number(created),
    leftMs: Number(deadline) - nowMs,
    timeoutMs: Number(timeout),
    ...keptOf(kept),
    deaths: 0,
    isWaitedFor: isWaitedFor === "1",
  };
  return { request, bytes: Number(bytes), place: place === "redis" || place === "bucket" ? place : "" };
}

/** @param reply origin, a tab, webhook, a line break, body */
export function keptOf(reply: unknown): Pick<UnfinishedRequest, "origin" | "webhook" | "body"> {
  const [head, body] = partsOf(bytesOf(reply));
  const [origin = "", webhook = ""] = head.split("\t");
  return { origin: originOf(origin), webhook: webhook === "" ? undefined : webhookOf(webhook), body: bodyOf(body) };
}

/** Converts a body. Copies a large body, because other answers share its buffer, and the copy is transferred to a thread. */
function bodyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> | string {
  return bytes.length > LARGE_BYTES ? new Uint8Array(bytes) : textOf(bytes);
}

/** An entry of a Redis stream: its id, then names and values in turn. */
export interface StreamEntry {
  readonly id: string;
  readonly fields: readonly unknown[];
}

/** @param reply answer of XREAD or XREADGROUP for one stream; null after the timeout */
export function entriesOf(reply: unknown): StreamEntry[] {
  const [stream] = listOf(reply);
  return listOf(listOf(stream)[1]).map(entryOf);
}

export function entryOf(entry: unknown): StreamEntry {
  const [id, fields] = listOf(entry);
  return { id: textOf(id), fields: listOf(fields) };
}
