/**
 * A batch of changes as two texts, and back: one posted text costs a hundredth of as many posted objects.
 * A change is one line of fields in `heads`; its body or outcome stands in `texts`, cut by the lengths that the line gives.
 */

import { byteLengthOf } from "../large-text.ts";
import { originText } from "../stored-origin.ts";
import type { Change } from "./change.ts";
import type { StoredRecord, StoredRequest } from "./sqlite-messages.ts";

export interface CreateRow extends Omit<StoredRequest, "row" | "leftMs" | "deaths"> {
  readonly op: "create";
  /** Milliseconds since the store was told. */
  readonly ageMs: number;
  readonly begunAtMs: number | null;
}

export interface EndRow extends StoredRecord {
  readonly op: "end";
  readonly finishedAtMs: number;
  readonly status: string;
  readonly ageMs: number;
  readonly bytes: number;
}

export type Row =
  | CreateRow
  | EndRow
  | { readonly op: "begun"; readonly id: string; readonly begunAtMs: number | null }
  | { readonly op: "drop"; readonly id: string };

/** Stands for a field that is not there. */
const NONE = "-";

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export function encodeBatch(changes: Iterable<Change>, nowMs: number): { heads: string; texts: string } {
  let heads = "";
  let texts = "";
  for (const change of changes) {
    switch (change.op) {
      case "create": {
        const { id, kind, count, createdAtMs, timeoutMs, body: kept } = change.request;
        const body = change.file !== undefined ? "" : typeof kept === "string" ? kept : utf8.decode(kept);
        const origin = originText(change.request.origin);
        const age = nowMs - change.toldMs;
        const digest = change.request.digest ?? NONE;
        heads += `c ${id} ${kind} ${count} ${createdAtMs} ${timeoutMs} ${age} ${change.begunAtMs ?? NONE} ${change.file ?? NONE} ${body.length} ${origin.length} ${digest}\n`;
        texts += body + origin;
        break;
      }
      case "begun":
        heads += `b ${change.id} ${change.begunAtMs ?? NONE}\n`;
        break;
      case "end": {
        const { id, kind, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, outcome, logs } = change.record;
        const digest = change.record.digest ?? NONE;
        const { status, members } = outcome;
        const times = `${createdAtMs} ${startedAtMs ?? NONE} ${finishedAtMs}`;
        const kept = `${status} ${nowMs - change.toldMs} ${change.bytes}`;
        if (change.file === undefined) {
          heads += `e ${id} ${kind} ${count} ${itemsDone} ${times} ${kept} ${NONE} 0 ${members.length} ${logs.length} ${digest}\n`;
          texts += `${members}${logs}`;
        } else {
          heads += `e ${id} ${kind} ${count} ${itemsDone} ${times} ${kept} ${change.file} ${byteLengthOf(members)} 0 0 ${digest}\n`;
        }
        break;
      }
      case "drop":
        heads += `d ${change.id}\n`;
    }
  }
  return { heads, texts };
}

export function* decodeBatch({ heads, texts }: { heads: string; texts: string }): Generator<Row> {
  let end = 0;
  const text = (length: string | undefined) => {
    const start = end;
    end += Number(length);
    return texts.slice(start, end);
  };
  for (const line of heads.split("\n")) {
    const [op, id = "", ...rest] = line.split(" ");
    if (op === "c") {
      const [kind = "", count, createdAtMs, timeoutMs, ageMs, begunAtMs, file, length, originLength, digest] = rest;
      const times = { createdAtMs: Number(createdAtMs), timeoutMs: Number(timeoutMs), ageMs: Number(ageMs) };
      const begun = { begunAtMs: time(begunAtMs), file: name(file), body: text(length) };
      const origin = text(originLength);
      yield { op: "create", id, kind, count: Number(count), ...times, ...begun, origin, digest: name(digest) ?? "" };
    } else if (op === "b") {
      yield { op: "begun", id, begunAtMs: time(rest[0]) };
    } else if (op === "e") {
      const [kind = "", count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, status = "", ageMs, bytes] = rest;
      const [file, fileMembersBytes, membersLength, logsLength, digest] = rest.slice(9);
      yield {
        op: "end",
        id,
        kind,
        count: Number(count),
        itemsDone: Number(itemsDone),
        createdAtMs: Number(createdAtMs),
        startedAtMs: time(startedAtMs),
        finishedAtMs: Number(finishedAtMs),
        status,
        ageMs: Number(ageMs),
        bytes: Number(bytes),
        file: name(file),
        fileMembersBytes: Number(fileMembersBytes),
        members: text(membersLength),
        logs: text(logsLength),
        digest: name(digest) ?? "",
      };
    } else if (op === "d") {
      yield { op: "drop", id };
    }
  }
}

function time(field: string | undefined): number | null {
  return field === undefined || field === NONE ? null : Number(field);
}

function name(field: string | undefined): string | null {
  return field === undefined || field === NONE ? null : field;
}
