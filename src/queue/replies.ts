/** What the queue answers, from bytes to records. */
import { LARGE_BYTES } from "../inputs/bodies.ts";
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import type { LeftRequest } from "../predictions/store.ts";
import { originOf } from "../predictions/stored-origin.ts";

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

/** Empty where there is none. */
export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/** A record, and whether its members are elsewhere. */
export interface ReadRecord {
  readonly record: PredictionRecord;
  readonly isLarge: boolean;
}

/** @param reply head, then logs and members, as the scripts write them; null where there is none */
export function recordOf(reply: unknown): ReadRecord | null {
  const [head, texts] = listOf(reply);
  if (head === undefined) return null;
  const words = textOf(head).split(" ");
  const [id = "", kind, count, , created, , , , done, started, finished, status, large = "", logBytes] = words;
  const bytes = bytesOf(texts);
  const logs = textOf(bytes.subarray(0, Number(logBytes)));
  const members = () => textOf(bytes.subarray(Number(logBytes)));
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
      logs,
    },
    isLarge: large.includes("members"),
  };
}

function kindOf(text: string | undefined): Kind {
  return text === "demo" ? "demo" : "prediction";
}

/** @param reply what `takeScript` says of one; its body is elsewhere where it is large */
export function takenOf(reply: unknown): { readonly request: LeftRequest; readonly isLarge: boolean } {
  const [id, meta, left, kept, large, isWaited] = listOf(reply);
  const [kind, count, , created, , timeout] = textOf(meta).split(" ");
  const bytes = bytesOf(kept);
  const originEnd = bytes.indexOf(LINE_BREAK);
  const request = {
    id: textOf(id),
    kind: kindOf(kind),
    count: Number(count),
    createdAtMs: Number(created),
    leftMs: numberOf(left),
    timeoutMs: Number(timeout),
    origin: originOf(textOf(bytes.subarray(0, originEnd))),
    body: bodyOf(bytes.subarray(originEnd + 1)),
    deaths: 0,
    isWaitedFor: numberOf(isWaited) === 1,
  };
  return { request, isLarge: textOf(large) === "body" };
}

/** A copy: a large one's memory may be given away, and is one with that of other answers. */
function bodyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> | string {
  return bytes.length > LARGE_BYTES ? new Uint8Array(bytes) : textOf(bytes);
}

/** An entry of a stream: its id, and its fields in order, a name and a value each. */
export interface StreamEntry {
  readonly id: string;
  readonly fields: readonly unknown[];
}

/** @param reply of XREAD or XREADGROUP for one stream; null where nothing came in time */
export function entriesOf(reply: unknown): StreamEntry[] {
  const [stream] = listOf(reply);
  return listOf(listOf(stream)[1]).map(entryOf);
}

export function entryOf(entry: unknown): StreamEntry {
  const [id, fields] = listOf(entry);
  return { id: textOf(id), fields: listOf(fields) };
}

/** Of an entry of the work: that of its prediction. */
export function idOf({ fields }: StreamEntry): string {
  return textOf(fields[1]);
}
