/**
 * The limits of ended predictions. Beyond a limit, the memory store and SQLite evict the oldest prediction. Reads from
 * SQLite also compare the age, because its evictions may be late. In Redis, the age is the time to live of records.
 */

export interface RetentionLimits {
  /** Maximum age in milliseconds of a monotonic clock. */
  readonly maxAgeMs: number;
  /** Maximum bytes of all results. The newest result stays even if it is larger. */
  readonly maxBytes: number;
}

/** Bytes that the limit counts for a record in addition to its texts. A record in memory takes about 340 bytes. */
export const RECORD_BYTES = 704;

/**
 * Whether the oldest of the retained predictions must be evicted.
 * @param retained.ageMs milliseconds since the end of the oldest
 */
export function isOverLimits(
  { maxAgeMs, maxBytes }: RetentionLimits,
  { count, bytes, ageMs }: { readonly count: number; readonly bytes: number; readonly ageMs: number },
): boolean {
  return (bytes > maxBytes && count > 1) || ageMs > maxAgeMs;
}
