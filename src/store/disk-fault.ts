/** What a disk refuses, in words. */
import { SconceError } from "../errors.ts";

const reasons: Readonly<Record<string, string>> = {
  ENOSPC: "has no room left; make some, or remove models with `sconce rm`",
  EDQUOT: "has no room left for this user; make some, or remove models with `sconce rm`",
  EROFS: "is read-only; name another with SCONCE_HOME",
  EACCES: "cannot be written by this user; name another with SCONCE_HOME",
};

export function isFull(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");
}

/** Undefined where it was not the disk. */
export function diskFault(error: unknown, home: string): SconceError | undefined {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const reason = reasons[code];
  return reason === undefined
    ? undefined
    : new SconceError("store_unwritable", `the model store ${home} ${reason}`, { cause: error });
}
