/**
 * Locks an address and port for one server. Two servers that share a port (SO_REUSEPORT) would share its clients. When
 * the owner dies, the kernel releases the lock.
 */
import { lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf } from "../base/errors.ts";
import { lockWhenFree, tryLock } from "../machine/files/lock.ts";

export interface Place {
  readonly host: string;
  readonly port: number;
}

/** An owner writes its process id just after it has taken the lock. Another server looks for the id again this often. */
const OWNER_TRIES = 100;
const OWNER_WAIT_MS = 10;

export class PortLock implements Disposable {
  readonly #resources: DisposableStack;

  private constructor(resources: DisposableStack) {
    this.#resources = resources;
  }

  /** Takes the lock. @returns the process id of its owner if another server has it; 0 if the id is unknown */
  static take(place: Place): PortLock | number {
    const path = pathOf(place);
    if (path === undefined) return new PortLock(new DisposableStack());
    for (let left = OWNER_TRIES; ; left--) {
      const lock = tryLock(`${path}.lock`);
      if (lock !== undefined) return PortLock.#own(path, lock);
      const owner = ownerOf(path);
      if (owner !== 0 || left === 0) return owner;
      Bun.sleepSync(OWNER_WAIT_MS);
    }
  }

  /** Waits until the owner of the lock has ended, and takes the lock. @throws the signal's reason */
  static async takeLater(place: Place, signal: AbortSignal): Promise<PortLock> {
    const path = pathOf(place);
    const lock = path === undefined ? undefined : await lockWhenFree(`${path}.lock`, { signal });
    return path === undefined || lock === undefined ? new PortLock(new DisposableStack()) : PortLock.#own(path, lock);
  }

  static #own(path: string, lock: Disposable): PortLock {
    const resources = new DisposableStack();
    resources.use(lock);
    writeFileSync(`${path}.pid`, String(process.pid));
    resources.defer(() => rmSync(`${path}.pid`, { force: true }));
    return new PortLock(resources);
  }

  [Symbol.dispose](): void {
    this.#resources.dispose();
  }
}

/** The process id of the lock's owner; 0 if the owner has not written it yet, or a killed owner has left the file. */
function ownerOf(path: string): number {
  try {
    const owner = Number.parseInt(readFileSync(`${path}.pid`, "utf8"), 10) || 0;
    if (owner !== 0) process.kill(owner, 0);
    return owner;
  } catch {
    return 0;
  }
}

/**
 * Path of the lock without its ending, in a folder that only this user can write. Undefined if there is no such folder.
 * A port can be in use once in each network namespace.
 */
function pathOf({ host, port }: Place): string | undefined {
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `sconce-ports-${uid}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { uid: owner, mode } = lstatSync(folder);
    // Another user may have created the folder.
    if (owner !== uid || (mode & 0o077) !== 0) return undefined;
    const network = readlinkSync("/proc/self/ns/net").replaceAll(/\D/g, "");
    return join(folder, `${network}-${host.replaceAll(/[^\w.-]/g, "_")}-${port}`);
  } catch (error) {
    if (codeOf(error) === "") throw error;
    return undefined;
  }
}
