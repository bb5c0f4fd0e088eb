/** Changes and rows of predictions. Changes go to the thread as one JSON text: sending as many objects takes far more time. */
import type { LargeText } from "../large-text.ts";
import type { EndedRecord } from "../record.ts";
import { fieldsOf, type RecordFields } from "../record-fields.ts";
import { originText, type PredictionRequest, storedBody } from "../request.ts";

/** A change of one prediction that waits for its commit. Exactly one of the optional members is set. */
export interface Change {
  readonly id: string;
  /** Time of the change in milliseconds of `performance.now()`. */
  readonly atMs: number;
  /** Characters or bytes of the body or the outcome. */
  readonly bytes: number;
  readonly request?: PredictionRequest;
  /** Start in milliseconds since 1970; null for a request that stops because the process exits. */
  readonly begunAtMs?: number | null;
  readonly end?: EndedRecord;
  /** The webhook to add; null to remove it. */
  readonly webhook?: string | null;
  /** A body or an outcome that goes to the thread in pieces, beside the JSON. */
  readonly large?: LargeText | undefined;
  /** The caller that waits for the commit. */
  readonly waiting?: PromiseWithResolvers<void>;
}

export interface Row {
  readonly id: string;
  /** Milliseconds since the change. */
  readonly ageMs: number;
  readonly creation?: CreationRow | undefined;
  readonly begunAtMs?: number | null | undefined;
  readonly end?: EndRow | undefined;
  readonly webhook?: string | null | undefined;
  /** Number of pieces that the body or the members consist of; 0 if the row itself has them. */
  readonly pieces: number;
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

/** @param nowMs milliseconds of `performance.now()`, from which the age of the change is measured */
export function rowOf({ id, atMs, bytes, request, begunAtMs, end, webhook, large }: Change, nowMs: number): Row {
  const isInline = large === undefined;
  return {
    id,
    ageMs: nowMs - atMs,
    creation: request && creationRow(request, isInline),
    begunAtMs,
    end: end && { ...fieldsOf(end), members: isInline ? String(end.outcome.members) : "", bytes },
    webhook,
    pieces: large?.pieces.length ?? 0,
  };
}

function creationRow(request: PredictionRequest, isInline: boolean): CreationRow {
  const { kind, count, createdAtMs, timeoutMs, digest = "", model, origin } = request;
  const body = isInline ? storedBody(request) : "";
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
