/** Opens stores of predictions (SQLite) in the folder of a test. */
import { join } from "node:path";
import type { EndedRecord } from "../../src/predictions/record.ts";
import { type SqliteOptions, SqliteStore } from "../../src/predictions/sqlite/sqlite-store.ts";
import type { UnfinishedRequest } from "../../src/predictions/store.ts";
import { keepAll, requestOf } from "./predictions.ts";

/** Opens a store. The end of the scope closes it, unless the test has. */
export async function open(
  folder: { readonly path: string },
  options: Partial<SqliteOptions> = {},
): Promise<SqliteStore & AsyncDisposable> {
  const store = await SqliteStore.open({ path: join(folder.path, "predictions.db"), retention: keepAll, ...options });
  return Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
}

/**
 * Takes over the unfinished requests of earlier processes. @param isOwn chooses the owners; default: all @returns the
 * requests
 */
export function leftOf(store: SqliteStore, isOwn = (_owner: string) => true): Promise<UnfinishedRequest[]> {
  return Array.fromAsync(store.takeOver(({ owner }) => isOwn(owner)));
}

/** Stores the requests of predictions and then their outcomes, in order. Resolves before the outcomes are written. */
export async function endIn(store: SqliteStore, ...records: readonly EndedRecord[]): Promise<void> {
  await Promise.all(records.map(({ id }) => store.create(requestOf(id))));
  for (const record of records) store.finish(record);
}
