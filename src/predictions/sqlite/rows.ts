/** The rows of changes, which go to the database's thread as JSON: one text takes far less time to send than as many objects. */

import { byteLengthOf } from "../large-text.ts";
import { fieldsOf, type RecordFields } from "../record-fields.ts";
import { originText } from "../request.ts";
import type { Change, Creation, End } from "./changes.ts";

/** A change of a prediction: its unfinished row, its ended row, and its webhook. */
export interface Row {
  readonly id: string;
  readonly creation?: CreationRow | undefined;
  readonly begunAtMs?: number | null | undefined;
  readonly end?: EndRow | undefined;
  readonly isDropped?: boolean;
  /** Null removes the webhook. */
  readonly webhook?: string | null | undefined;
}

/** Times in milliseconds. Texts are empty if a value is unknown, or if a file has it. */
export type CreationRow = {
  readonly kind: string;
  readonly count: number;
  readonly createdAtMs: number;
  readonly timeoutMs: number;
  /** Milliseconds since the store got the request. */
  readonly ageMs: number;
  /** Name of the file with a large body. */
  readonly file: string | null;
  readonly body: string;
  /** JSON of `Origin`, the facts about the HTTP request. */
  readonly origin: string;
  readonly digest: string;
  /** Version of the model, `repository@sha256:…`. */
  readonly model: string;
};

export type EndRow = Omit<RecordFields, "id" | "members"> & {
  readonly members: string;
  /** Milliseconds since the prediction ended. */
  readonly ageMs: number;
  /** Bytes that count against the limits of retention. */
  readonly bytes: number;
  /** File with large members and logs. The members are its first `fileMembersBytes` bytes. */
  readonly file: string | null;
  readonly fileMembersBytes: number;
};

export type StoredRecord = RecordFields & Pick<EndRow, "file" | "fileMembersBytes">;

export interface StoredRequest extends Omit<CreationRow, "ageMs"> {
  readonly id: string;
  readonly row: number;
  /** Milliseconds until the time limit. */
  readonly leftMs: number;
  readonly deaths: number;
}

/** Where unfinished predictions come from: first character of their ids, and name of the server that accepted them. */
export interface RowSource {
  readonly owner: string;
  readonly server: string;
}

/** Number of ended predictions in the database, and the bytes counted for them. */
export type Totals = { readonly totalCount: number; readonly totalBytes: number };

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** @param nowMs milliseconds of `performance.now()`, from which the ages of changes are measured */
export function rowOf({ id, creation, begunAtMs, end, isDropped, webhook }: Change, nowMs: number): Row {
  return {
    id,
    creation: creation && creationRow(creation, nowMs),
    begunAtMs,
    end: end && endRow(end, nowMs),
    isDropped,
    webhook,
  };
}

function creationRow({ request, body, file, atMs }: Creation, nowMs: number): CreationRow {
  const { kind, count, createdAtMs, timeoutMs, digest = "", model, origin } = request;
  const text = () => (typeof body === "string" ? body : utf8.decode(body));
  return {
    kind,
    count,
    createdAtMs,
    timeoutMs,
    ageMs: nowMs - atMs,
    file: file ?? null,
    body: file === undefined ? text() : "",
    origin: originText(origin),
    digest,
    model: model?.reference ?? "",
  };
}

function endRow({ record, bytes, file, atMs }: End, nowMs: number): EndRow {
  const { id: _id, members, ...fields } = fieldsOf(record);
  const row = { ...fields, ageMs: nowMs - atMs, bytes };
  return file === undefined
    ? { ...row, file: null, fileMembersBytes: 0, members: String(members) }
    : { ...row, file, fileMembersBytes: byteLengthOf(members), members: "", logs: "" };
}
