/** Files that are replaced whole, and kept through a crash. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";

/**
 * Replaces a file so that a reader sees the old content or the new, and a crash leaves one of the two.
 *
 * @param temp where the new content is written first; by default a name that only one process at a time may use
 */
export function replaceFile(path: string, content: string, temp = `${path}.new`): void {
  try {
    writeFileSync(temp, content);
    syncPath(temp);
    renameSync(temp, path);
  } catch (error) {
    rmSync(temp, { force: true });
    throw error;
  }
}

/** Makes a file's content, or a folder's entries, durable. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
