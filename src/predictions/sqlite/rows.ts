/** The rows of changes, which go to the database's thread as JSON: one text takes far less time to send than as many objects. */

import { byteLengthOf } from "../large-text.ts";
import { originText } from "../request.ts";
import type { Change } from "./change-queue.ts";

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
  /** Version of the model, `repository@sha256:…`; empty if unknown. */
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

export interface StoredRecord extends Omit<EndRow, "op" | "ageMs" | "bytes" | "finishedAtMs" | "status"> {
  /** Null for an unfinished prediction. */
  readonly finishedAtMs: number | null;
  /** Null for an unfinished prediction. */
  readonly status: string | null;
}

export interface StoredRequest extends Omit<CreateRow, "op" | "ageMs" | "begunAtMs"> {
  readonly row: number;
  /** Milliseconds until the time limit. */
  readonly leftMs: number;
  readonly deaths: number;
}

/** Where unfinished predictions come from. */
export interface RequestSource {
  /** First character of their ids, which stands for an HTTP process. */
  readonly owner: string;
  /** Name of the server that accepted them; empty in rows of old releases. */
  readonly server: string;
}

/** Number of ended predictions in the database, and the bytes counted for them. */
export type Totals = { readonly totalCount: number; readonly totalBytes: number };

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** @param nowMs milliseconds of `performance.now()`, from which the ages of changes are measured */
export function rowOf(change: Change, nowMs: number): Row {
  const { op, id } = change;
  switch (op) {
    case "create": {
      const { kind, count, createdAtMs, timeoutMs, body, digest = "", model, origin } = change.request;
      const text = () => (typeof body === "string" ? body : utf8.decode(body));
      return {
        op,
        id,
        kind,
        count,
        createdAtMs,
        timeoutMs,
        ageMs: nowMs - change.atMs,
        begunAtMs: change.begunAtMs ?? null,
        file: change.file ?? null,
        body: change.file === undefined ? text() : "",
        origin: originText(origin),
        digest,
        model: model?.reference ?? "",
      };
    }
    case "begun":
      return { op, id, begunAtMs: change.begunAtMs ?? null };
    case "end": {
      const { kind, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, outcome, logs } = change.record;
      const { digest = "", model } = change.record;
      const isInline = change.file === undefined;
      return {
        op,
        id,
        kind,
        count,
        itemsDone,
        createdAtMs,
        startedAtMs: startedAtMs ?? null,
        finishedAtMs,
        status: outcome.status,
        ageMs: nowMs - change.atMs,
        bytes: change.bytes,
        file: change.file ?? null,
        fileMembersBytes: isInline ? 0 : byteLengthOf(outcome.members),
        members: isInline ? String(outcome.members) : "",
        logs: isInline ? logs : "",
        digest,
        model: model?.reference ?? "",
      };
    }
    case "drop":
      return { op, id };
  }
}
