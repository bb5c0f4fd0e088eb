/**
 * Encodes changes as text, for messages to the database's thread and for packs (rows with many outcomes). A text takes
 * a hundredth of the time that as many objects take to send. `heads` has a line of fields for each change, with the
 * length of its body or outcome in `texts`.
 */

import { secondOf } from "../ids.ts";
import { byteLengthOf } from "../large-text.ts";
import { originText, type RetentionLimits } from "../store.ts";
import type { Change, EndChange } from "./change-queue.ts";

/** The row of an unfinished prediction. */
export type CreateRow = {
  readonly op: "create";
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  readonly createdAtMs: number;
  readonly timeoutMs: number;
  /** Milliseconds since the store got the request. */
  readonly ageMs: number;
  readonly begunAtMs: number | null;
  /** Name of the file with a large body; null if the row has the body. */
  readonly file: string | null;
  readonly body: string;
  /** JSON of `Origin`, the facts about the HTTP request; empty if unknown. */
  readonly origin: string;
  /** Digest of the request; empty if the server chose the id. */
  readonly digest: string;
  /** Version of the model, `repository@sha256:…`; empty in rows of old releases. */
  readonly model: string;
};

/** The row of an ended prediction. */
export type EndRow = {
  readonly op: "end";
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  readonly itemsDone: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number;
  readonly status: string;
  /** Milliseconds since the prediction ended. */
  readonly ageMs: number;
  /** Bytes that count against the limits of retention. */
  readonly bytes: number;
  /** File with large members and logs; null if the row has them. The members are its first `fileMembersBytes` bytes. */
  readonly file: string | null;
  readonly fileMembersBytes: number;
  readonly members: string;
  readonly logs: string;
  readonly digest: string;
  readonly model: string;
};

export type Row =
  | CreateRow
  | EndRow
  | { readonly op: "begun"; readonly id: string; readonly begunAtMs: number | null }
  | { readonly op: "drop"; readonly id: string };

export interface RowText {
  readonly heads: string;
  readonly texts: string;
}

/** A row with many small outcomes. */
export type Pack = {
  readonly packCount: number;
  /** Bytes that count against the limits of retention. */
  readonly packBytes: number;
  /** The ids, each followed by a space. */
  readonly packIds: string;
  readonly packHeads: string;
  readonly packTexts: string;
  /** Earliest and latest second of creation in the ids. */
  readonly firstSecond: number;
  readonly lastSecond: number;
};

/** Stands for a missing field. */
const NONE = "-";
/** Stands for a model that equals the model of the previous row. */
const SAME = "=";
const MAX_PACK_COUNT = 500;
/** Maximum bytes of an outcome in a pack. A larger outcome has a separate row. */
const MAX_PACKED_BYTES = 4096;
/** Minimum number of packs within the limits of retention, so that evicting a whole pack removes few outcomes. */
const MIN_PACKS = 32;

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export function encodeRows(changes: Iterable<Change>, nowMs: number): RowText {
  let heads = "";
  let texts = "";
  let last = "";
  const modelText = (model = "") => {
    if (model === last) return model === "" ? NONE : SAME;
    last = model;
    return model || NONE;
  };
  for (const change of changes) {
    switch (change.op) {
      case "create": {
        const { id, kind, count, createdAtMs, timeoutMs, body: stored, digest = NONE, model } = change.request;
        const body = change.file !== undefined ? "" : typeof stored === "string" ? stored : utf8.decode(stored);
        const origin = originText(change.request.origin);
        const times = `${createdAtMs} ${timeoutMs} ${nowMs - change.atMs} ${change.begunAtMs ?? NONE}`;
        const names = `${digest} ${modelText(model?.reference)}`;
        heads += `c ${id} ${kind} ${count} ${times} ${change.file ?? NONE} ${body.length} ${origin.length} ${names}\n`;
        texts += body + origin;
        break;
      }
      case "begun":
        heads += `b ${change.id} ${change.begunAtMs ?? NONE}\n`;
        break;
      case "end": {
        const { id, kind, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, outcome, logs } = change.record;
        const { digest = NONE, model } = change.record;
        const names = `${digest} ${modelText(model?.reference)}`;
        const { status, members } = outcome;
        const times = `${createdAtMs} ${startedAtMs ?? NONE} ${finishedAtMs}`;
        heads += `e ${id} ${kind} ${count} ${itemsDone} ${times} ${status} ${nowMs - change.atMs} ${change.bytes} `;
        if (change.file === undefined) {
          heads += `${NONE} 0 ${members.length} ${logs.length} ${names}\n`;
          texts += `${members}${logs}`;
        } else {
          heads += `${change.file} ${byteLengthOf(members)} 0 0 ${names}\n`;
        }
        break;
      }
      case "drop":
        heads += `d ${change.id}\n`;
    }
  }
  return { heads, texts };
}

export function* decodeRows({ heads, texts }: RowText): Generator<Row> {
  let end = 0;
  let last = "";
  const modelOf = (field: string | undefined) => {
    // Packs of old releases have no model field.
    if (field !== SAME) last = name(field) ?? "";
    return last;
  };
  const text = (length: string | undefined) => {
    const start = end;
    end += Number(length);
    return texts.slice(start, end);
  };
  for (const line of heads.split("\n")) {
    const [op, id = "", ...rest] = line.split(" ");
    if (op === "c") {
      const [kind = "", count, createdAtMs, timeoutMs, ageMs, begunAtMs, file, length, originLength, ...names] = rest;
      yield {
        op: "create",
        id,
        kind,
        count: Number(count),
        createdAtMs: Number(createdAtMs),
        timeoutMs: Number(timeoutMs),
        ageMs: Number(ageMs),
        begunAtMs: time(begunAtMs),
        file: name(file),
        body: text(length),
        origin: text(originLength),
        digest: name(names[0]) ?? "",
        model: modelOf(names[1]),
      };
    } else if (op === "b") {
      yield { op: "begun", id, begunAtMs: time(rest[0]) };
    } else if (op === "e") {
      const [kind = "", count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, status = "", ageMs, bytes] = rest;
      const [file, fileMembersBytes, membersLength, logsLength, digest, model] = rest.slice(9);
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
        model: modelOf(model),
      };
    } else if (op === "d") {
      yield { op: "drop", id };
    }
  }
}

/** Maximum outcomes in a pack. A limit below 2 means that packs are not used. */
export function packLimit({ maxCount, maxBytes }: RetentionLimits): number {
  return Math.floor(Math.min(MAX_PACK_COUNT, maxCount / MIN_PACKS, maxBytes / MAX_PACKED_BYTES / MIN_PACKS));
}

export function fitsPack({ bytes, isStored }: EndChange): boolean {
  return !isStored && bytes <= MAX_PACKED_BYTES;
}

export function packOf(changes: readonly EndChange[], nowMs: number): Pack {
  const { heads, texts } = encodeRows(changes, nowMs);
  const pack = { packCount: changes.length, packBytes: 0, packIds: "", firstSecond: Infinity, lastSecond: 0 };
  for (const { id, bytes } of changes) {
    const second = secondOf(id);
    pack.packIds += `${id} `;
    pack.packBytes += bytes;
    pack.firstSecond = Math.min(pack.firstSecond, second);
    pack.lastSecond = Math.max(pack.lastSecond, second);
  }
  return { ...pack, packHeads: heads, packTexts: texts };
}

export function findInPack(pack: RowText, id: string): EndRow | undefined {
  for (const row of decodeRows(pack)) if (row.op === "end" && row.id === id) return row;
  return undefined;
}

function time(field: string | undefined): number | null {
  return field === undefined || field === NONE ? null : Number(field);
}

function name(field: string | undefined): string | null {
  return field === undefined || field === NONE ? null : field;
}
