/**
 * The folder in which one running build keeps what is not finished; whatever ends the build, it is swept. That of a download is
 * kept for the next one of the same model to go on with.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { type FileLock, tryLock } from "./lock.ts";

const lockName = "lock";

export class Workspace implements Disposable {
  readonly folder: string;
  readonly #lock: FileLock | undefined;
  readonly #isKept: boolean;

  private constructor(folder: string, lock: FileLock | undefined, isKept: boolean) {
    this.folder = folder;
    this.#lock = lock;
    this.#isKept = isKept;
  }

  /** Takes a new folder inside `parent`; the caller holds the store's lock, so that no sweep comes between the two steps. */
  static open(parent: string): Workspace {
    const folder = join(parent, crypto.randomUUID());
    mkdirSync(folder, { recursive: true });
    return new Workspace(folder, tryLock(join(folder, lockName)), false);
  }

  /**
   * Takes the folder of that name inside `parent` with what an earlier owner left in it, which stays there unless `finish` is
   * called. The caller holds the store's lock.
   *
   * @returns undefined while it belongs to someone else
   */
  static reopen(parent: string, name: string): Workspace | undefined {
    const folder = join(parent, name);
    mkdirSync(folder, { recursive: true });
    const lock = tryLock(join(folder, lockName));
    return lock && new Workspace(folder, lock, true);
  }

  /** Nothing in the folder is needed any more; the caller holds the store's lock. */
  finish(): void {
    rmSync(this.folder, { recursive: true, force: true });
    this.#lock?.release();
  }

  [Symbol.dispose](): void {
    // A kept folder may only be removed under the store's lock, or somebody could be about to take it.
    if (!this.#isKept) rmSync(this.folder, { recursive: true, force: true });
    this.#lock?.release();
  }

  /** Bytes of the files that a sweep of `parent` would remove; the caller holds the store's lock. */
  static unusedBytes(parent: string): number {
    let bytes = 0;
    for (const folder of unused(parent)) {
      for (const file of readdirSync(folder)) bytes += statSync(join(folder, file)).size;
    }
    return bytes;
  }

  /**
   * Removes what dead processes left inside `parent`; the caller holds the store's lock.
   *
   * @param maxAgeMs keeps what holds a file that was written to since then
   */
  static sweep(parent: string, maxAgeMs = 0): void {
    for (const folder of unused(parent)) {
      if (maxAgeMs > 0 && ageOf(folder) < maxAgeMs) continue;
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

/**
 * The folders inside `parent` that no process uses, each locked until the next one. The kernel has given back the lock of a process that was killed,
 * so a lock that can be had marks a folder that nobody uses.
 */
function* unused(parent: string): Generator<string> {
  for (const entry of readdirSync(parent, { withFileTypes: true })) {
    // What a file manager left there is none of ours.
    if (!entry.isDirectory()) continue;
    const folder = join(parent, entry.name);
    const lockPath = join(folder, lockName);
    const lock = existsSync(lockPath) ? tryLock(lockPath) : undefined;
    if (lock === undefined && existsSync(lockPath)) continue;
    try {
      yield folder;
    } finally {
      lock?.release();
    }
  }
}

/** Milliseconds since one of its files was written to; without files, for ever. */
function ageOf(folder: string): number {
  const files = readdirSync(folder).filter((name) => name !== lockName);
  return Date.now() - Math.max(-Infinity, ...files.map((name) => statSync(join(folder, name)).mtimeMs));
}
