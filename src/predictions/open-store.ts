/** Opens the store of predictions that the options choose. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { storeLocation } from "../machine/files/location.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { MemoryStore } from "./memory-store.ts";
import type { StoreOptions } from "./options.ts";
import type { RetentionLimits } from "./retention.ts";
import { prepareFolder } from "./sqlite/server-database.ts";
import { SqliteStore } from "./sqlite/sqlite-store.ts";
import type { Store } from "./store.ts";

/**
 * Path of the SQLite database. Undefined for a store in memory: with `--store memory`, or without --store if the port
 * is 0 or the default folder cannot be written.
 * @param isOneOfSeveral whether the server has several models, so that `--store` names a folder with a database for
 * each
 * @throws SconceError `usage` if `--store` names a file where a folder is needed, or the reverse
 */
export function storePath(
  name: string,
  { store, port }: { readonly store: string | undefined; readonly port: number },
  isOneOfSeveral = false,
): string | undefined {
  const file = encodeURIComponent(name).replaceAll("%3A", ":");
  if (store === "memory") return undefined;
  if (store !== undefined) {
    checkKind(store, `${file}.sqlite`, isOneOfSeveral);
    const path = isOneOfSeveral ? join(store, `${file}.sqlite`) : store;
    if (isOneOfSeveral) prepareFolder(path);
    return path;
  }
  // With port 0, a restarted server has another port, and the name of its file would differ.
  if (port === 0) return undefined;
  const path = join(storeLocation(), "predictions", `${file}-${port}.sqlite`);
  try {
    prepareFolder(path);
    return path;
  } catch (error) {
    log.warn(`Predictions are kept in memory and lost with the server: ${messageOf(error)}; name a file with --store`);
    return undefined;
  }
}

function checkKind(store: string, file: string, isOneOfSeveral: boolean): void {
  const found = statSync(store, { throwIfNoEntry: false });
  if (isOneOfSeveral && found?.isFile()) {
    throw new SconceError(
      "usage",
      `--store ${store} is a file; with several models, name a folder for the files of all`,
    );
  }
  if (!isOneOfSeveral && found?.isDirectory()) {
    throw new SconceError("usage", `--store ${store} is a folder; with one model, name a file: ${join(store, file)}`);
  }
}

/**
 * Opens the store of predictions of a front.
 * @param path path of the SQLite database; undefined for a store in memory
 * @throws SconceError `predictions_unusable`
 */
export async function openStore(
  path: string | undefined,
  config: StoreOptions,
  options: { readonly memory: MemoryAccount; readonly server: string },
): Promise<Store> {
  const retention: RetentionLimits = { maxAgeMs: config.retainAge * 1000, maxBytes: config.retainBytes };
  if (path === undefined) return new MemoryStore(retention, options);
  return SqliteStore.open({ path, retention, sync: config.storeSync, ...options });
}
