/** One server a database: two would take each other's predictions over. */
import { accessSync, chmodSync, constants, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type FileLock, tryLock } from "../../../machine/files/lock.ts";
import { databaseFault } from "./database-fault.ts";
import { unusable } from "./prediction-schema.ts";

/**
 * The lock is held for life; the kernel gives it back when its process dies.
 * @throws SconceError `predictions_unusable`
 */
export function lockDatabase(path: string): FileLock {
  let lock: FileLock | undefined;
  try {
    prepareFolder(path);
    lock = tryLock(`${path}-lock`);
    chmodSync(`${path}-lock`, 0o600);
  } catch (error) {
    lock?.release();
    throw unusable(path, databaseFault(error), error);
  }
  if (lock === undefined) throw unusable(path, "another server uses them; stop it, or name another file");
  return lock;
}

/** SQLite's own words for a folder that cannot be written are about a file. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  accessSync(folder, constants.W_OK);
}
