/** Locks a database file for one server. A second server with the file would run the same predictions. */
import { accessSync, chmodSync, constants, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { log } from "../../base/log.ts";
import { type FileLock, lockWhenFree, tryLock } from "../../machine/files/lock.ts";
import { databaseFault, unusable } from "./database-fault.ts";

/**
 * Locks the database until the caller releases the lock or the process exits.
 * @param options.waits whether to wait for a process that has the lock, until `signal` is aborted
 * @throws SconceError `predictions_unusable`
 */
export async function lockDatabase(
  path: string,
  { waits = false, signal }: { readonly waits?: boolean; readonly signal?: AbortSignal | undefined } = {},
): Promise<FileLock> {
  let lock: FileLock | undefined;
  try {
    prepareFolder(path);
    const onWait = () =>
      log.info(`Waits for the server that uses ${path}: unfinished predictions run when it has ended`);
    lock = waits ? await lockWhenFree(`${path}-lock`, { onWait, ...(signal && { signal }) }) : tryLock(`${path}-lock`);
    chmodSync(`${path}-lock`, 0o600);
  } catch (error) {
    lock?.release();
    throw unusable(path, databaseFault(error), error);
  }
  if (lock === undefined) throw unusable(path, "another server uses them; stop it, or name another file");
  return lock;
}

/** Creates the folder of a database. Throws if it is not writable, for which SQLite would blame the file. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  accessSync(folder, constants.W_OK);
}
