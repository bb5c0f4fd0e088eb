/** Parses answers of Redis. */
import { LARGE_BYTES } from "../inputs/bodies.ts";
import { checksumOfTexts, DamagedValue } from "../predictions/checksum.ts";
import { ModelVersion } from "../predictions/model-version.ts";
import { kindOf, type PredictionRecord } from "../predictions/record.ts";
import { originOf, type UnfinishedRequest } from "../predictions/store.ts";
import { webhookOf } from "../webhooks/webhook.ts";
import { sealOf } from "./seal.ts";

const LINE_BREAK = 10;

export function textOf(reply: unknown): string {
  if (reply instanceof Buffer) return reply.toString();
  return reply instanceof Uint8Array ? Buffer.from(reply.buffer, reply.byteOffset, reply.length).toString() : "";
}

export function numberOf(reply: unknown): number {
  return typeof reply === "number" ? reply : Number(textOf(reply));
}

export function bytesOf(reply: unknown): Uint8Array {
  return reply instanceof Uint8Array ? reply : new Uint8Array();
}

/** Returns an empty list for an answer that is no list. */
export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/**
 * A record from Redis. If the outcome's JSON members are in the bucket, `membersNode` is the id of the replica that stored them, and the record has
 * none.
 */
export interface ReadRecord {
  readonly record: PredictionRecord;
  readonly membersNode: string | undefined;
  /** Checksum of id, logs and members; empty for a prediction that a script ended. */
  readonly checksum: string;
}

/**
 * Parses a record, as Lua scripts write it: a first line with the fields, then logs and members. @returns null for an unknown id @throws DamagedValue
 * for an outcome that the disk of Redis changed. If the members are in the bucket, the caller checks them
 */
export function recordOf(reply: unknown): ReadRecord | null {
  if (!(reply instanceof Uint8Array)) return null;
  const [head, texts] = partsOf(reply);
  const fields = head.split(" ");
  const [id = "", kind, count, , , created, done, started, finished, status, membersNode, logBytes, ...more] = fields;
  const [model = "", digest = "", checksum = "", seal = ""] = more;
  if (status) {
    const line = head.slice(0, -seal.length - 1);
    if (seal !== (checksum === "" ? sealOf(line, "\n", texts) : sealOf(line))) throw damaged(id);
    if (checksum !== "" && !membersNode && checksum !== checksumOfTexts(id, [texts])) throw damaged(id);
  }
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
      digest: digest || undefined,
      model: ModelVersion.of(model),
    },
    membersNode: membersNode || undefined,
    checksum,
  };
}

export function damaged(id: string): DamagedValue {
  return new DamagedValue(`the disk of Redis changed the outcome of prediction ${id}`);
}

/** Splits bytes into the first line and the rest. */
function partsOf(bytes: Uint8Array): [string, Uint8Array] {
  const end = bytes.indexOf(LINE_BREAK);
  return [textOf(bytes.subarray(0, end)), bytes.subarray(end + 1)];
}

/** Where a body is: in the stream entry of its prediction (""), in a Redis key, or in the bucket. */
export type Place = "" | "redis" | "bucket";

/** A stream entry of an unfinished prediction. */
export interface ClaimedEntry extends Pick<UnfinishedRequest, "id" | "kind" | "count" | "createdAtMs" | "timeoutMs"> {
  readonly leftMs: number;
  readonly isWaitedFor: boolean;
  /** Size of the body. */
  readonly bytes: number;
  readonly place: Place;
  /** The request as text for `requestOf`, without a body that is stored elsewhere. */
  readonly kept: Uint8Array;
  /** Checksum of id and request; undefined if the disk of Redis changed the other fields. */
  readonly checksum: string | undefined;
}

/** Time limit of a prediction whose entry the disk of Redis changed. Until then a worker can fail it. */
const DAMAGED_MS = 60_000;

export function claimedOf({ fields }: StreamEntry, nowMs: number): ClaimedEntry {
  const [, reply, , kept] = fields;
  const head = textOf(reply);
  const end = head.lastIndexOf(" ");
  const [id = "", kind, count, bytes, timeout, place, isWaitedFor, created, deadline, checksum] = head.split(" ");
  const isIntact = head.slice(end + 1) === sealOf(head.slice(0, end));
  const own = { id, kind: kindOf(kind), isWaitedFor: isWaitedFor === "1", kept: bytesOf(kept) };
  if (!isIntact) {
    const times = { createdAtMs: nowMs, leftMs: DAMAGED_MS, timeoutMs: DAMAGED_MS };
    return { ...own, ...times, count: 1, bytes: 0, place: "", checksum: undefined };
  }
  return {
    ...own,
    count: Number(count),
    createdAtMs: Number(created),
    leftMs: Number(deadline) - nowMs,
    timeoutMs: Number(timeout),
    bytes: Number(bytes),
    place: place === "redis" || place === "bucket" ? place : "",
    checksum,
  };
}

/**
 * Parses a request.
 * @param parts text of origin, tab, webhook, line break and body; then the body, if it is stored elsewhere
 */
export function requestOf(
  { id, checksum }: Pick<ClaimedEntry, "id" | "checksum">,
  parts: readonly [Uint8Array, Uint8Array<ArrayBuffer> | undefined],
): Pick<UnfinishedRequest, "origin" | "webhook" | "body" | "isDamaged"> {
  const [kept, body] = parts;
  if (checksum !== checksumOfTexts(id, body === undefined ? [kept] : [kept, body]))
    return { body: "", isDamaged: true };
  const [head, rest] = partsOf(kept);
  const [origin = "", webhook = ""] = head.split("\t");
  return {
    origin: originOf(origin),
    webhook: webhook === "" ? undefined : webhookOf(webhook),
    body: body ?? bodyOf(rest),
  };
}

/** Copies a large body, because other answers share its buffer and the body is transferred to a thread. A small body becomes a string. */
function bodyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> | string {
  return bytes.length > LARGE_BYTES ? new Uint8Array(bytes) : textOf(bytes);
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
