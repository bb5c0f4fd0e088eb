/** A small in-memory file system, for tests of full and read-only disks. */
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
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
  /** Fills the file system to its last byte, with a file. */
  fill(): void;
  /** Removes the file of `fill`. */
  clear(): void;
}

export function tmpfs(size: string): Tmpfs {
  const path = mkdtempSync(join(tmpdir(), "sconce-test-disk-"));
  if (!mount("-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path)) throw new Error("cannot mount a tmpfs");
  return {
    path,
    setReadOnly(isReadOnly) {
      if (!mount("-o", `remount,${isReadOnly ? "ro" : "rw"}`, path)) throw new Error("cannot mount it again");
    },
    fill() {
      const file = openSync(join(path, "filler"), "w");
      for (let bytes = 65536; bytes >= 1; ) {
        try {
          if (writeSync(file, Buffer.alloc(bytes)) === bytes) continue;
        } catch {
          // The disk lacks space for this number of bytes, but perhaps not for half of it.
        }
        bytes >>= 1;
      }
      // A file that is open keeps its disk space after its removal.
      closeSync(file);
    },
    clear: () => rmSync(join(path, "filler")),
    [Symbol.dispose]() {
      Bun.spawnSync(["umount", "-l", path]);
      rmSync(path, { recursive: true });
    },
  };
}
