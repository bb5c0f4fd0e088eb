/** The folder in which one running build keeps what is not finished; whatever ends the build, it is swept. */
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type FileLock, tryLock } from "./lock.ts";

const lockName = "lock";

export class Workspace implements Disposable {
  readonly folder: string;
  readonly #lock: FileLock | undefined;

  /** Takes a new folder inside `parent`; the caller holds the store's lock, so that no sweep comes between the two steps. */
  constructor(parent: string) {
    this.folder = join(parent, crypto.randomUUID());
    mkdirSync(this.folder, { recursive: true });
    this.#lock = tryLock(join(this.folder, lockName));
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
    this.#lock?.release();
  }

  /**
   * Removes what dead processes left inside `parent`; the caller holds the store's lock. The kernel has given back the lock of
   * a process that was killed, so a lock that can be had marks a folder that nobody uses.
   */
  static sweep(parent: string): void {
    for (const name of readdirSync(parent)) {
      const folder = join(parent, name);
      const lockPath = join(folder, lockName);
      const lock = existsSync(lockPath) ? tryLock(lockPath) : undefined;
      if (lock || !existsSync(lockPath)) rmSync(folder, { recursive: true, force: true });
      lock?.release();
    }
  }
}
