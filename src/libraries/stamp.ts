/**
 * Tells whether files are untouched since their digests were checked, which for libtorch takes a second: what the file system
 * says of them, and since when the machine runs. After a start of the machine, a copy, or a write, they are checked anew.
 */
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const stampName = ".checked";

/** Whether the files are those of the stamp that was written. */
export function hasStamp(folder: string, names: readonly string[]): boolean {
  try {
    return readFileSync(join(folder, stampName), "utf8") === stampOf(folder, names);
  } catch {
    return false;
  }
}

/** To be called once the files were found to be what they should be; in a folder that cannot be written they are checked each time. */
export function writeStamp(folder: string, stamp: string): void {
  const temporary = join(folder, `${stampName}-${process.pid}`);
  try {
    writeFileSync(temporary, stamp);
    renameSync(temporary, join(folder, stampName));
  } catch {}
}

/** Of the files as they are now; undefined where one is missing, or the system does not say since when it runs. */
export function stampOf(folder: string, names: readonly string[]): string | undefined {
  try {
    const files = names.map((name) => {
      const { ino, size, mtimeNs, ctimeNs } = statSync(join(folder, name), { bigint: true });
      return [name, ino, size, mtimeNs, ctimeNs].join(" ");
    });
    // What was not yet on the disk when the machine lost its power is not what was written.
    return [readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), ...files, ""].join("\n");
  } catch {
    return undefined;
  }
}
