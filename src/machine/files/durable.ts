/** Replaces files atomically, and flushes files and folders to disk. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";

/**
 * Replaces a file atomically: readers see the old or the new content, even after a crash.
 * @param temp path of the temporary file; the default is safe only if one process writes at a time
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

/** Flushes a file's content, or a folder's entries, to disk. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
