/** What the queue answers, from bytes to records. */
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import type { LeftRequest } from "../predictions/store.ts";
import { originOf } from "../predictions/stored-origin.ts";

export function textOf(reply: unknown): string {
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

/** @param reply head, logs and members, as the scripts write them; null where there is none */
export function recordOf(reply: unknown): ReadRecord | null {
  const [head, logs, members] = listOf(reply);
  if (head === undefined) return null;
  const [id = "", kind, count, done, created, started, finished, status, large = ""] = textOf(head).split(" ");
  return {
    record: {
      id,
      kind: kindOf(kind),
      count: Number(count),
      itemsDone: Number(done),
      createdAtMs: Number(created),
      startedAtMs: started ? Number(started) : undefined,
      finishedAtMs: finished ? Number(finished) : undefined,
      outcome: status === "success" || status === "failed" ? { status, members: textOf(members) } : undefined,
      logs: textOf(logs),
    },
    isLarge: large.includes("members"),
  };
}

function kindOf(text: string | undefined): Kind {
  return text === "demo" ? "demo" : "prediction";
}

/** @param reply what `takeScript` says of one; its body is elsewhere where it is large */
export function takenOf(reply: unknown): { readonly request: LeftRequest; readonly isLarge: boolean } {
  const fields = listOf(reply);
  const text = (i: number) => textOf(fields[i]);
  const request = {
    id: text(0),
    kind: kindOf(text(1)),
    count: Number(text(2)),
    createdAtMs: Number(text(3)),
    leftMs: numberOf(fields[4]),
    timeoutMs: Number(text(5)),
    origin: originOf(text(6)),
    // A copy: its memory may be given away, and is one with that of other answers.
    body: new Uint8Array(bytesOf(fields[7])),
    deaths: 0,
    isWaitedFor: numberOf(fields[9]) === 1,
  };
  return { request, isLarge: text(8) === "body" };
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
