/** Error messages for faults of disks and databases. */
import { codeOf, SconceError } from "../../base/errors.ts";

const reasons: Readonly<Record<string, string>> = {
  SQLITE_FULL: "its disk has no room left",
  ENOSPC: "its disk has no room left",
  EDQUOT: "its disk has no room left for this user",
  SQLITE_READONLY: "it is read-only",
  EROFS: "it is read-only",
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  ENOENT: "its folder is gone",
  ENOTDIR: "a part of its path is a file",
  EISDIR: "it is a folder",
  SQLITE_CANTOPEN: "it cannot be opened or created",
  SQLITE_IOERR: "its disk fails",
  EIO: "its disk fails",
  SQLITE_CORRUPT: "it is damaged",
  SQLITE_NOTADB: "it is no database",
  SQLITE_BUSY: "another process keeps it locked",
};

/** The reason of an error, in words that continue a sentence: "its disk fails (EIO)". */
export function databaseFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = codeOf(error);
  // Extended codes of SQLite begin with a general code: SQLITE_IOERR_WRITE with SQLITE_IOERR.
  const reason = reasons[code] ?? reasons[code.split("_").slice(0, 2).join("_")];
  return reason === undefined ? error.message : `${reason} (${code})`;
}

export function unusable(path: string, reason: string, cause?: unknown): SconceError {
  return new SconceError("predictions_unusable", `the predictions in ${path} cannot be used: ${reason}`, { cause });
}

/** The error for a request that cannot be stored. Clients see the message, so it contains no path. */
export function unwritable(reason: string, cause?: unknown): SconceError {
  const message = `the prediction cannot be kept now: the store says that ${reason}`;
  return new SconceError("predictions_unwritable", message, { cause });
}
