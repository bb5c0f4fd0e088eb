/**
 * A lock between processes: SQLite's exclusive lock on an empty database. When the owner dies, even by SIGKILL, the
 * kernel releases it. Bun and Node have no flock, and a lock file with a process id would remain after a kill.
 */
import { Database } from "bun:sqlite";
import { closeSync, openSync } from "node:fs";
import { codeOf, SconceError } from "../../base/errors.ts";

export interface FileLock extends Disposable {
  /** Releases the lock. A second call does nothing. */
  release(): void;
}

/**
 * Waits for the lock, and blocks the thread during the wait.
 * @param what name of the locked object, for the message
 * @throws SconceError `store_busy` when another process still holds the lock after `timeoutMs`
 */
export function acquireLock(path: string, timeoutMs: number, what = "the model store"): FileLock {
  const lock = open(path, timeoutMs);
  if (lock) return lock;
  throw new SconceError(
    "store_busy",
    `${what} is still being written by another process after ${timeoutMs / 1000} s; try again when it has ended`,
  );
}

/** Takes the lock if it is free. Returns undefined if another owner in any process holds it. */
export function tryLock(path: string): FileLock | undefined {
  return open(path, 0);
}

/** Milliseconds between two tries while another owner holds the lock. */
const LOOK_MS = 50;

export interface LockWait {
  /** Called once, if the lock is not free at the first try. */
  onWait?(): void;
  /** Default: no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Waits for the lock without blocking the thread. @returns undefined after the timeout @throws the signal's reason */
export async function lockWhenFree(path: string, options: LockWait = {}): Promise<FileLock | undefined> {
  const { onWait, timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
  for (let waitedMs = 0; waitedMs < timeoutMs; waitedMs += LOOK_MS) {
    signal?.throwIfAborted();
    const lock = tryLock(path);
    if (lock !== undefined) return lock;
    if (waitedMs === 0) onWait?.();
    await Bun.sleep(LOOK_MS);
  }
  return undefined;
}

/**
 * Opens the database of a lock. @throws the file system's error when the file cannot be created; SQLite's message does
 * not say the reason
 */
function openDatabase(path: string): Database {
  try {
    return new Database(path, { create: true, readwrite: true });
  } catch (error) {
    closeSync(openSync(path, "a"));
    throw error;
  }
}

function open(path: string, timeoutMs: number): FileLock | undefined {
  const database = openDatabase(path);
  try {
    database.run(`PRAGMA busy_timeout = ${timeoutMs}`);
    // The database stays empty, so a journal on disk would only be a stray file.
    database.run("PRAGMA journal_mode = MEMORY");
    database.run("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (isBusy(error)) return undefined;
    throw error;
  }
  let held = true;
  const release = () => {
    if (!held) return;
    held = false;
    database.close();
  };
  return { release, [Symbol.dispose]: release };
}

function isBusy(error: unknown): boolean {
  return codeOf(error) === "SQLITE_BUSY";
}
