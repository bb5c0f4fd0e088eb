/** Error messages for faults of disks and databases. */
import { codeOf, SconceError } from "../../base/errors.ts";

/** The reason of an error, with its code. Clients see it, so it has no path, which messages of the system have. */
export function databaseFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = codeOf(error);
  if (code === "") return error.message;
  return code.startsWith("SQLITE_") ? `${error.message} (${code})` : `the system refuses it (${code})`;
}

export function unusable(path: string, reason: string, cause?: unknown): SconceError {
  return new SconceError("predictions_unusable", `the predictions in ${path} cannot be used: ${reason}`, { cause });
}

/** The error for a request that cannot be stored. */
export function unwritable(reason: string, cause?: unknown): SconceError {
  const message = `the prediction cannot be kept now: ${reason}`;
  return new SconceError("predictions_unwritable", message, { cause });
}
