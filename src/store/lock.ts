/**
 * A lock between processes that the kernel gives back when its owner dies, however it dies: SQLite's lock on an empty database.
 * Neither Bun nor Node offers flock, and a lock file with a process number in it outlives a kill.
 */
import { Database } from "bun:sqlite";
import { closeSync, openSync } from "node:fs";
import { SconceError } from "../errors.ts";

export interface FileLock extends Disposable {
  /** Gives the lock back; may be called twice. */
  release(): void;
}

/**
 * Waits for the lock, holding the thread.
 *
 * @param what is locked, for the message
 * @throws SconceError `store_busy` when another process still has it after `timeoutMs`.
 */
export function acquireLock(path: string, timeoutMs: number, what = "the model store"): FileLock {
  const lock = open(path, timeoutMs);
  if (lock) return lock;
  throw new SconceError(
    "store_busy",
    `${what} is still being written by another process after ${timeoutMs / 1000} s; try again when it has ended`,
  );
}

/** The lock, or undefined at once when another process (or another owner in this one) has it. */
export function tryLock(path: string): FileLock | undefined {
  return open(path, 0);
}

/** Between two looks whether another process has given a lock back. */
const LOOK_MS = 50;

export interface LockWait {
  /** Called once, where another has it. */
  onWait?(): void;
  /** Waits for ever without it. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Waits for the lock without holding the thread. @returns undefined when it is not free in time */
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

/** @throws what the file system says of a file that cannot be made: SQLite says only that it cannot be opened */
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
    // Nothing is ever written into it, so the file of a journal would only be left lying about.
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
  return error instanceof Error && "code" in error && error.code === "SQLITE_BUSY";
}
