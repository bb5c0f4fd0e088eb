/** Parses answers of Redis. */
import { LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import { ModelVersion } from "../model-version.ts";
import { kindOf, type PredictionRecord } from "../record.ts";
import { originOf, type UnfinishedRequest } from "../store.ts";
import { webhookOf } from "../webhooks/webhook.ts";

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
 * Parses a record, as Lua scripts write it: a first line with the fields, then logs and members.
 * @returns undefined for an unknown id
 */
export function recordOf(reply: unknown): PredictionRecord | undefined {
  if (!(reply instanceof Uint8Array)) return undefined;
  const [head, texts] = partsOf(reply);
  const fields = head.split(" ");
  const [id = "", kind, count, , , created, done, started, finished, status, logBytes, model = "", digest] = fields;
  const members = () => textOf(texts.subarray(Number(logBytes)));
  return {
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
  };
}

/** Splits bytes into the first line and the rest. */
function partsOf(bytes: Uint8Array): [string, Uint8Array] {
  const end = bytes.indexOf(LINE_BREAK);
  return [textOf(bytes.subarray(0, end)), bytes.subarray(end + 1)];
}

/** A stream entry of an unfinished prediction. */
export interface ClaimedEntry extends Pick<UnfinishedRequest, "id" | "kind" | "count" | "createdAtMs" | "timeoutMs"> {
  readonly leftMs: number;
  readonly isWaitedFor: boolean;
  /** Size of the body. */
  readonly bytes: number;
  /** Whether a Redis key of the prediction has the request, because its body is large. */
  readonly isLarge: boolean;
  /** The request as text for `requestOf`; empty for a large body. */
  readonly request: Uint8Array;
}

export function claimedOf({ fields }: StreamEntry, nowMs: number): ClaimedEntry {
  const [, head, , request] = fields;
  const [id = "", kind, count, bytes, timeout, isLarge, isWaitedFor, created, deadline] = textOf(head).split(" ");
  return {
    id,
    kind: kindOf(kind),
    count: Number(count),
    createdAtMs: Number(created),
    leftMs: Number(deadline) - nowMs,
    timeoutMs: Number(timeout),
    isWaitedFor: isWaitedFor === "1",
    bytes: Number(bytes),
    isLarge: isLarge === "1",
    request: bytesOf(request),
  };
}

/** Parses a request: the text of origin, tab, webhook, line break and body. */
export function requestOf(request: Uint8Array): Pick<UnfinishedRequest, "origin" | "webhook" | "body"> {
  const [head, rest] = partsOf(request);
  const [origin = "", webhook = ""] = head.split("\t");
  return {
    origin: originOf(origin),
    webhook: webhook === "" ? undefined : webhookOf(webhook),
    body: bodyOf(rest),
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
