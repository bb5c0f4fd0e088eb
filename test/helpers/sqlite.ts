/** Databases of predictions in a folder of a test. */
import { join } from "node:path";
import { type SqliteOptions, SqliteStore } from "../../src/server/predictions/sqlite/sqlite-store.ts";
import type { UnfinishedRequest } from "../../src/server/predictions/store.ts";
import { keepAll } from "./predictions.ts";

export function open(folder: { readonly path: string }, options: Partial<SqliteOptions> = {}): Promise<SqliteStore> {
  return SqliteStore.open({ path: join(folder.path, "predictions.db"), retention: keepAll, ...options });
}

/** The requests that a process before this one left, by default of all owners. */
export function leftOf(store: SqliteStore, isOwn = (_owner: string) => true): Promise<UnfinishedRequest[]> {
  return Array.fromAsync(store.takeOver(isOwn));
}
