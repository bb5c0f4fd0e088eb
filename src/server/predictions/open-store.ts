/** Chooses and opens the store of predictions that the operator asked for. */
import { join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { storeLocation } from "../../machine/files/location.ts";
import type { ServeConfig } from "../config.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { MemoryStore } from "./memory-store.ts";
import { prepareFolder } from "./sqlite/database-lock.ts";
import { SqliteStore } from "./sqlite/sqlite-store.ts";
import type { PredictionStore, RetentionLimits } from "./store.ts";

/**
 * The file that keeps the predictions of a model on a port; undefined where memory does. A folder that nobody named and that cannot be
 * written is no reason not to serve.
 */
export function storePath(
  repository: string,
  { store, port }: Pick<ServeConfig, "store" | "port">,
): string | undefined {
  if (store !== undefined) return store === "memory" ? undefined : store;
  // Who takes any free port is not found again at it.
  if (port === 0) return undefined;
  const path = join(storeLocation(), "predictions", `${repository.replaceAll("/", "%2F")}-${port}.sqlite`);
  try {
    prepareFolder(path);
    return path;
  } catch (error) {
    log.warn(`Predictions are kept in memory and lost with the server: ${messageOf(error)}; name a file with --store`);
    return undefined;
  }
}

/**
 * @param role `main` for the process that has the file for the whole server
 * @param memory of the process; the supervisor of fronts, which keeps nothing, has none
 * @throws SconceError `predictions_unusable`
 */
export async function openStore(
  path: string | undefined,
  config: Pick<ServeConfig, "retainCount" | "retainAge" | "retainBytes" | "storeSync">,
  role: "main" | "member",
  memory?: MemoryAccount,
): Promise<PredictionStore> {
  const retention: RetentionLimits = {
    maxCount: config.retainCount ?? Infinity,
    maxAgeMs: config.retainAge * 1000,
    maxBytes: config.retainBytes,
  };
  return path === undefined
    ? new MemoryStore(retention, memory && { memory })
    : SqliteStore.open({ path, retention, sync: config.storeSync, role, memory });
}
