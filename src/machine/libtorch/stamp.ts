/**
 * Remembers that files were verified, because hashing libtorch takes a second. The stamp contains the files' metadata
 * and the machine's boot id. After a write, a copy or a reboot, the files are verified again.
 */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../files/durable.ts";

const stampName = ".checked";

/** Whether the files need no new verification: the stamp in the folder has their metadata and this boot's id. */
export function hasStamp(folder: string, names: readonly string[]): boolean {
  try {
    return readFileSync(join(folder, stampName), "utf8") === stampOf(folder, names);
  } catch {
    return false;
  }
}

/**
 * Writes the stamp after the files were verified. In a read-only folder this does nothing, so each start verifies the
 * files.
 */
export function writeStamp(folder: string, stamp: string): void {
  try {
    replaceFile(join(folder, stampName), stamp, join(folder, `${stampName}-${process.pid}`));
  } catch {}
}

/** Computes the stamp of the files as they are; undefined when a file is missing or the system has no boot id. */
export function stampOf(folder: string, names: readonly string[]): string | undefined {
  try {
    const files = names.map((name) => {
      const { ino, size, mtimeNs, ctimeNs } = statSync(join(folder, name), { bigint: true });
      return [name, ino, size, mtimeNs, ctimeNs].join(" ");
    });
    // The boot id makes the stamp invalid after a reboot: a power loss can drop written data that was not flushed.
    return [readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), ...files, ""].join("\n");
  } catch {
    return undefined;
  }
}
