/** The database of a server, before its fronts open it: the lock of the server, and the check for damage. */
import { accessSync, chmodSync, constants, existsSync, mkdirSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import { log } from "../../base/log.ts";
import { type FileLock, lockWhenFree, tryLock } from "../../machine/files/lock.ts";
import { databaseFault, unusable } from "./database-fault.ts";
import { connect, UnreadableFile } from "./prediction-schema.ts";

/**
 * Locks the database until the caller releases the lock or the process exits: a second server with the file would run
 * the same predictions.
 * @param signal ends the wait for a process that has the lock; undefined for no wait
 * @throws SconceError `predictions_unusable`
 */
export async function lockDatabase(path: string, signal?: AbortSignal): Promise<FileLock> {
  let lock: FileLock | undefined;
  try {
    prepareFolder(path);
    const onWait = () =>
      log.info(`Waits for the server that uses ${path}: unfinished predictions run when it has ended`);
    lock = signal ? await lockWhenFree(`${path}-lock`, { onWait, signal }) : tryLock(`${path}-lock`);
    chmodSync(`${path}-lock`, 0o600);
  } catch (error) {
    lock?.release();
    throw unusable(path, databaseFault(error), error);
  }
  if (lock === undefined) throw unusable(path, "another server uses them; stop it, or name another file");
  return lock;
}

/**
 * Opens and closes the database. Creates a missing one.
 * @param isLocked whether no other server uses the file. A damaged file is then moved aside.
 * @throws SconceError `predictions_unusable`
 */
export function checkDatabase(path: string, isLocked: boolean): void {
  try {
    prepareFolder(path);
    try {
      connect({ path, isChecked: isLocked }).close();
    } catch (error) {
      if (!isLocked || !(error instanceof UnreadableFile)) throw error;
      const aside = moveAside(path);
      log.error(
        `The predictions in ${path} cannot be used: ${error.message}. They are in ${aside} now, and the server begins anew`,
      );
      connect({ path }).close();
    }
  } catch (error) {
    throw unusable(path, databaseFault(error), error);
  }
}

/** Creates the folder of a database. Throws if it is not writable, for which SQLite would blame the file. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  accessSync(folder, constants.W_OK);
}

/** Moves a database that cannot be read, and its write-ahead log. @returns the new path of the database */
function moveAside(path: string): string {
  const aside = `${path}.damaged-${new Date().toISOString().replaceAll(/[^\dT]/g, "")}`;
  for (const suffix of ["", "-wal"]) if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  return aside;
}
