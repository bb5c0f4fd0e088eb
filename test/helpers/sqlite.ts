/** Opens prediction databases in a test folder. */
import { join } from "node:path";
import { type SqliteOptions, SqliteStore } from "../../src/server/predictions/sqlite/sqlite-store.ts";
import type { UnfinishedRequest } from "../../src/server/predictions/store.ts";
import { keepAll } from "./predictions.ts";

export function open(folder: { readonly path: string }, options: Partial<SqliteOptions> = {}): Promise<SqliteStore> {
  return SqliteStore.open({ path: join(folder.path, "predictions.db"), retention: keepAll, ...options });
}

/** Unfinished requests that an earlier process left in the database, by default of all owners. */
export function leftOf(store: SqliteStore, isOwn = (_owner: string) => true): Promise<UnfinishedRequest[]> {
  return Array.fromAsync(store.takeOver(({ owner }) => isOwn(owner)));
}
