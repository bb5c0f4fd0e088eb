/** A small in-memory file system, for tests of full and read-only disks. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

function mount(...args: string[]): boolean {
  return process.platform === "linux" && Bun.spawnSync(["mount", ...args]).success;
}

/** Whether the user of the tests may mount file systems. */
export const canMount = (() => {
  const path = mkdtempSync(join(tmpdir(), "sconce-test-mount-"));
  const done = mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", path);
  if (done) Bun.spawnSync(["umount", path]);
  rmSync(path, { recursive: true });
  return done;
})();

export interface Tmpfs extends Disposable {
  readonly path: string;
  /** Makes the file system read-only or writable. */
  setReadOnly(isReadOnly: boolean): void;
}

export function tmpfs(path: string, size: string): Tmpfs {
  mkdirSync(path);
  if (!mount("-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path)) throw new Error("cannot mount a tmpfs");
  return {
    path,
    setReadOnly(isReadOnly) {
      if (!mount("-o", `remount,${isReadOnly ? "ro" : "rw"}`, path)) throw new Error("cannot mount it again");
    },
    [Symbol.dispose]: () => void Bun.spawnSync(["umount", "-l", path]),
  };
}
