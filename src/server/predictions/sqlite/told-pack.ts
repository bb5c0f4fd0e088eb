/**
 * Outcomes that clients were told with the answer, as one row of the database: each of its own cost both threads a fifth of all that a small
 * prediction costs, and nearly nobody asks for one again.
 */
import { secondOf } from "../ids.ts";
import type { RetentionLimits } from "../store.ts";
import type { EndChange } from "./change.ts";
import { decodeBatch, type EndRow, encodeBatch } from "./sqlite-batch.ts";
import type { ToldPack } from "./sqlite-messages.ts";

const MAX_COUNT = 500;
/** A larger outcome has a row of its own. */
const MAX_RECORD_BYTES = 4096;
/** Retention forgets a pack as a whole: what it may keep is many of them. */
const MIN_PACKS = 32;

/** Most outcomes of one pack; below 2 none is worth it. */
export function packLimit({ maxCount, maxBytes }: RetentionLimits): number {
  return Math.floor(Math.min(MAX_COUNT, maxCount / MIN_PACKS, maxBytes / MAX_RECORD_BYTES / MIN_PACKS));
}

export function fitsPack({ bytes, isCreated }: EndChange): boolean {
  return !isCreated && bytes <= MAX_RECORD_BYTES;
}

export function packOf(changes: readonly EndChange[], nowMs: number): ToldPack {
  const { heads, texts } = encodeBatch(changes, nowMs);
  const pack = { toldCount: changes.length, toldBytes: 0, toldIds: "", firstSecond: Infinity, lastSecond: 0 };
  for (const { id, bytes } of changes) {
    const second = secondOf(id);
    pack.toldIds += `${id} `;
    pack.toldBytes += bytes;
    pack.firstSecond = Math.min(pack.firstSecond, second);
    pack.lastSecond = Math.max(pack.lastSecond, second);
  }
  return { ...pack, toldHeads: heads, toldTexts: texts };
}

export function findInPack(pack: { readonly heads: string; readonly texts: string }, id: string): EndRow | undefined {
  for (const row of decodeBatch(pack)) if (row.op === "end" && row.id === id) return row;
  return undefined;
}
