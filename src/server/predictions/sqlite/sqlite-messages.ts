/** The messages between a prediction database's users and the thread that has it. All are flat: Bun posts those without a deep copy. */

import type { KeptWebhook } from "../../webhooks/webhook-store.ts";

/** How the database is opened; the first message of every thread. */
export interface OpenMessage {
  readonly type: "open";
  readonly path: string;
  readonly sync: "normal" | "full";
  /** Removes files that belong to no row; only where no other process can be writing one. */
  readonly isMain: boolean;
  readonly maxCount: number;
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  /** Milliseconds since 1970. */
  readonly wallMs: number;
}

/** Changes that are committed together; the texts are those of sqlite-batch.ts. */
export interface WriteMessage extends ToldPack {
  readonly type: "write";
  readonly heads: string;
  readonly texts: string;
  readonly wallMs: number;
}

/** Outcomes that go into one row, see told-pack.ts. */
export interface ToldPack {
  readonly toldCount: number;
  /** That they count with. */
  readonly toldBytes: number;
  /** Each followed by a blank. */
  readonly toldIds: string;
  readonly toldHeads: string;
  readonly toldTexts: string;
  /** Of the ids. */
  readonly firstSecond: number;
  readonly lastSecond: number;
}

export interface GetMessage {
  readonly type: "get";
  readonly id: string;
}

/** Asks for the first characters of the ids of all unfinished predictions, and the row number of the newest. */
export interface OwnersMessage {
  readonly type: "owners";
}

/** Takes over the oldest unfinished prediction of these owners between two row numbers. */
export interface TakeMessage {
  readonly type: "take";
  readonly owners: string;
  readonly after: number;
  readonly upTo: number;
}

/** Changes the table of webhooks: forgets these, then keeps those; both are JSON lists, of rows and of ids. */
export interface KeepWebhooksMessage {
  readonly type: "keepWebhooks";
  readonly kept: string;
  readonly forgotten: string;
}

/** Asks for the whole table of webhooks. */
export interface WebhooksMessage {
  readonly type: "webhooks";
}

export interface CloseMessage {
  readonly type: "close";
}

export type StoreMessage =
  | OpenMessage
  | WriteMessage
  | GetMessage
  | OwnersMessage
  | TakeMessage
  | KeepWebhooksMessage
  | WebhooksMessage
  | CloseMessage;

export type Numbered = StoreMessage & { readonly number: number };

/** Ended predictions in the database and the bytes that they count with. */
export interface Totals {
  readonly totalCount: number;
  readonly totalBytes: number;
}

export interface Written extends Totals {
  /** Ids, apart by blanks, of outcomes that were not the first. */
  readonly refused: string;
}

export interface Owners {
  readonly owners: string;
  readonly upTo: number;
}

/** An ended or an unfinished prediction as it lies in the database. */
export interface StoredRecord {
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  readonly itemsDone: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly status: string | null;
  readonly members: string;
  readonly logs: string;
  /** Empty where the server chose the id. */
  readonly digest: string;
  /** Where members and logs lie instead, and how many bytes of the file are members. */
  readonly file: string | null;
  readonly fileMembersBytes: number;
}

/** An unfinished prediction that was taken over. */
export interface StoredRequest {
  readonly row: number;
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  readonly createdAtMs: number;
  readonly timeoutMs: number;
  readonly leftMs: number;
  readonly deaths: number;
  readonly body: string;
  /** As JSON; empty where a release that knew no origins wrote it. */
  readonly origin: string;
  /** Empty where the server chose the id. */
  readonly digest: string;
  /** Where the body lies instead. */
  readonly file: string | null;
}

/** What the thread says by itself: what is left after it has tended to the database. */
export interface Tended {
  readonly number?: undefined;
  readonly totals: Totals;
  /** Whether the file was deleted or replaced. */
  readonly isGone: boolean;
  /** Whether the write-ahead log was damaged when the database was opened. */
  readonly isLogDamaged?: boolean;
}

/** The answer to a message; a row that is not there is left out, and `fault` says in words why it could not be done. */
export interface Answer {
  readonly number: number;
  readonly totals?: Totals;
  readonly written?: Written;
  readonly record?: StoredRecord | undefined;
  readonly owners?: Owners;
  readonly taken?: StoredRequest | undefined;
  /** Whether nothing was taken because the disk is full. */
  readonly isFull?: boolean;
  readonly webhooks?: readonly KeptWebhook[];
  readonly fault?: string;
}
