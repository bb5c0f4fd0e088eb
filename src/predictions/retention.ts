/** The limits of ended predictions, the same for all stores; `--retain-age` is an option of server/work-options.ts. Beyond them a store evicts the oldest, which clients can then no longer read. */

export interface RetentionLimits {
  readonly maxCount: number;
  /** Maximum age in milliseconds of a monotonic clock. */
  readonly maxAgeMs: number;
  /** Maximum bytes of all results. The newest result stays even if it is larger. */
  readonly maxBytes: number;
}

/** Bytes counted for a record besides its texts. In memory a record takes about 340 bytes. */
export const RECORD_BYTES = 704;

/**
 * Whether the oldest of the retained predictions must be evicted.
 * @param retained.ageMs milliseconds since the end of the oldest
 */
export function isOverLimits(
  { maxCount, maxAgeMs, maxBytes }: RetentionLimits,
  { count, bytes, ageMs }: { readonly count: number; readonly bytes: number; readonly ageMs: number },
): boolean {
  return count > maxCount || (bytes > maxBytes && count > 1) || ageMs > maxAgeMs;
}
