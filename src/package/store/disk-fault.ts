/** Explains disk errors of the model store, and refuses writes that would fill its disk. */
import { statfsSync } from "node:fs";
import { formatBytes } from "../../base/bytes.ts";
import { codeOf, SconceError } from "../../base/errors.ts";

const reasons: Readonly<Record<string, string>> = {
  ENOSPC: "has no space left; make room, or remove models with `sconce rm`",
  EDQUOT: "has no space left for this user; make room, or remove models with `sconce rm`",
  EROFS: "is read-only; name another with SCONCE_HOME",
  EACCES: "cannot be written by this user; name another with SCONCE_HOME",
};

export function isFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(codeOf(error));
}

/** Bytes of the disk that a write must leave free for other programs. */
const SPARE_BYTES = 16 * 1024 * 1024;

/**
 * Checks for free space in the model store before a write.
 * @param bytes size of the write
 * @throws SconceError `store_unwritable` when `bytes` would fill the disk
 */
export function requireSpace(home: string, bytes: number): void {
  const { blocks, bavail, bsize } = statfsSync(home);
  const freeBytes = Math.max(0, bavail * bsize - SPARE_BYTES);
  // A virtual file system with an unknown size reports zero blocks.
  if (bytes <= freeBytes || blocks === 0) return;
  throw new SconceError(
    "store_unwritable",
    `the model store ${home} has room for ${formatBytes(freeBytes)} but ${formatBytes(bytes)} are needed; make room, or remove models with \`sconce rm\``,
  );
}

/** The error with a fix for the operator; undefined when the error does not come from the disk. */
export function diskFault(error: unknown, home: string): SconceError | undefined {
  const reason = reasons[codeOf(error)];
  return reason === undefined
    ? undefined
    : new SconceError("store_unwritable", `the model store ${home} ${reason}`, { cause: error });
}
