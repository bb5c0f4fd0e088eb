/** Files that are replaced whole, and kept through a crash. */
import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Replaces a file so that a reader sees the old content or the new, and a crash leaves one of the two. */
export function replaceFile(path: string, content: string, tempFolder: string): void {
  const temp = join(tempFolder, crypto.randomUUID());
  writeFileSync(temp, content);
  syncPath(temp);
  renameSync(temp, path);
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
