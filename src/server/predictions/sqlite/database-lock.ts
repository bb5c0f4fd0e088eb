/** The lock of a database: two servers on one file would take over each other's predictions. */
import { accessSync, chmodSync, constants, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type FileLock, lockWhenFree, tryLock } from "../../../machine/files/lock.ts";
import { databaseFault, unusable } from "./database-fault.ts";

/**
 * Locks the database for the life of this process; the kernel releases the lock at its end.
 * @param timeoutMs how long to wait for another owner
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

/** Creates the folder of a database. Throws for an unwritable one, which SQLite would report as a fault of the file. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  accessSync(folder, constants.W_OK);
}
