/** Locks the file of a database. Two servers with one file would run each other's predictions. */
import { accessSync, chmodSync, constants, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type FileLock, lockWhenFree, tryLock } from "../../../machine/files/lock.ts";
import { databaseFault, unusable } from "./database-fault.ts";

/**
 * Locks the database until this process exits. The kernel then releases the lock.
 * @param timeoutMs milliseconds to wait for another process that has the lock
 * @throws SconceError `predictions_unusable`
 */
export async function lockDatabase(path: string, timeoutMs = 0): Promise<FileLock> {
  let lock: FileLock | undefined;
  try {
    prepareFolder(path);
    lock = timeoutMs === 0 ? tryLock(`${path}-lock`) : await lockWhenFree(`${path}-lock`, { timeoutMs });
    chmodSync(`${path}-lock`, 0o600);
  } catch (error) {
    lock?.release();
    throw unusable(path, databaseFault(error), error);
  }
  if (lock === undefined) throw unusable(path, "another server uses them; stop it, or name another file");
  return lock;
}

/** Creates the folder of a database. Throws if the folder is not writable, which SQLite would report as a fault of the file. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  accessSync(folder, constants.W_OK);
}
