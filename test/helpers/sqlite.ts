/** Opens stores of predictions (SQLite) in the folder of a test. */
import { join } from "node:path";
import { type SqliteOptions, SqliteStore } from "../../src/server/predictions/sqlite/sqlite-store.ts";
import type { UnfinishedRequest } from "../../src/server/predictions/store.ts";
import { keepAll } from "./predictions.ts";

export function open(folder: { readonly path: string }, options: Partial<SqliteOptions> = {}): Promise<SqliteStore> {
  return SqliteStore.open({ path: join(folder.path, "predictions.db"), retention: keepAll, ...options });
}

/**
 * Takes over the unfinished requests of earlier processes. @param isOwn chooses the owners; default: all @returns the
 * requests
 */
export function leftOf(store: SqliteStore, isOwn = (_owner: string) => true): Promise<UnfinishedRequest[]> {
  return Array.fromAsync(store.takeOver(({ owner }) => isOwn(owner)));
}
