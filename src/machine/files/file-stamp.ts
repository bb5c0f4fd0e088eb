/** Detects whether a file has changed, without reading it. */
import { statSync } from "node:fs";

/**
 * A text that differs after every write to the file, because programs cannot set a file's ctime. Undefined when the
 * file is missing.
 */
export function fileStamp(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && [found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ");
}
