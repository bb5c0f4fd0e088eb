/** Changes and rows of predictions. Changes go to the thread as one JSON text: sending as many objects takes far more time. */
import type { RecordFields } from "../record.ts";
import { originText, type PredictionRequest } from "../request.ts";

/** A change of one prediction. Exactly one of the optional members is set. */
export interface Row {
  readonly id: string;
  /** Time of the change in milliseconds of `performance.now()` of the process. */
  readonly atMs: number;
  readonly creation?: CreationRow;
  /** Start in milliseconds since 1970; null for a request that stops because the process exits. */
  readonly runningSinceMs?: number | null;
  readonly end?: EndRow;
  /** The webhook to add; null to remove it. */
  readonly webhook?: string | null;
  /** Number of pieces that the body or the members consist of. Undefined if the row itself has them. */
  readonly pieces?: number | undefined;
}

/** Times in milliseconds. Texts are empty if a value is unknown. */
export type CreationRow = {
  readonly kind: string;
  readonly count: number;
  readonly createdAtMs: number;
  readonly timeoutMs: number;
  /** JSON of `Origin`, the facts about the HTTP request. */
  readonly origin: string;
  readonly digest: string;
  /** Version of the model, `repository@sha256:…`. */
  readonly model: string;
  readonly body: string;
};

export type EndRow = Omit<RecordFields, "id" | "members"> & { readonly members: string; readonly bytes: number };

/** A text, or UTF-8 if it is large. */
export type StoredText = string | Uint8Array<ArrayBuffer>;

export interface StoredRecord extends Omit<RecordFields, "members"> {
  readonly members: StoredText;
}

export interface StoredRequest extends Omit<CreationRow, "body"> {
  readonly id: string;
  readonly row: number;
  readonly body: StoredText;
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
export interface Totals {
  count: number;
  bytes: number;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** @param body empty for a large body */
export function creationRow(request: PredictionRequest, body: string | Uint8Array): CreationRow {
  const { kind, count, createdAtMs, timeoutMs, digest = "", model, origin } = request;
  return {
    kind,
    count,
    createdAtMs,
    timeoutMs,
    origin: originText(origin),
    digest,
    model: model?.reference ?? "",
    body: typeof body === "string" ? body : utf8.decode(body),
  };
}
