/**
 * A temporary folder for one build, container image or download. A build's folder is removed after the build. A
 * download's folder stays after a failure, so that the next pull can resume.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { type FileLock, tryLock } from "../../machine/files/lock.ts";

const lockName = "lock";

export class Workspace implements Disposable {
  readonly folder: string;
  readonly #lock: FileLock | undefined;
  readonly #isResumable: boolean;

  private constructor(folder: string, lock: FileLock | undefined, isResumable: boolean) {
    this.folder = folder;
    this.#lock = lock;
    this.#isResumable = isResumable;
  }

  /**
   * Creates a folder inside `parent` and locks it. The caller holds the store's lock, so no `sweep` can remove the
   * folder before it is locked.
   */
  static open(parent: string): Workspace {
    const folder = join(parent, crypto.randomUUID());
    mkdirSync(folder, { recursive: true });
    return new Workspace(folder, tryLock(join(folder, lockName)), false);
  }

  /**
   * Opens or creates the folder `name` inside `parent`. It may contain files of an earlier run. The caller holds the
   * store's lock.
   * @returns undefined while another process uses the folder
   */
  static reopen(parent: string, name: string): Workspace | undefined {
    const folder = join(parent, name);
    mkdirSync(folder, { recursive: true });
    const lock = tryLock(join(folder, lockName));
    return lock && new Workspace(folder, lock, true);
  }

  /** Removes the folder after success. The caller holds the store's lock. */
  finish(): void {
    rmSync(this.folder, { recursive: true, force: true });
    this.#lock?.release();
  }

  [Symbol.dispose](): void {
    // A download's folder stays for a later pull.
    if (!this.#isResumable) rmSync(this.folder, { recursive: true, force: true });
    this.#lock?.release();
  }

  /**
   * Removes folders inside `parent` that no process uses. The caller holds the store's lock.
   * @param maxAgeMs keeps folders in which a file was written within this time
   */
  static sweep(parent: string, maxAgeMs = 0): void {
    for (const folder of unused(parent)) {
      if (maxAgeMs > 0 && ageOf(folder) < maxAgeMs) continue;
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

/**
 * Yields folders inside `parent` that no process uses: the kernel releases the lock of a dead process. Each folder
 * stays locked until the next is requested.
 */
function* unused(parent: string): Generator<string> {
  for (const entry of readdirSync(parent, { withFileTypes: true })) {
    // Skips files, which for example a file manager created.
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

/** Milliseconds since the last write to a file in the folder; infinite for an empty folder. */
function ageOf(folder: string): number {
  const files = readdirSync(folder).filter((name) => name !== lockName);
  return Date.now() - Math.max(-Infinity, ...files.map((name) => statSync(join(folder, name)).mtimeMs));
}
