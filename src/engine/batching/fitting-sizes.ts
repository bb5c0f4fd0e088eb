/**
 * The largest batch size for each shape key (sizes of free dimensions): lower after a lack of device memory, later
 * higher again.
 */

interface Size {
  most: number;
  sinceMs: number;
}

/** Milliseconds until a lowered limit doubles, because other programs may have freed memory. */
const RETRY_MS = 60_000;
/** Limit of remembered shape keys: clients choose the sizes of free dimensions. */
const MAX_KEYS = 1000;

export class FittingSizes {
  readonly #maxBatchSize: number;
  readonly #sizes = new Map<string, Size>();
  /** The lowest limit so far, of all shape keys. */
  #lowest: number;

  constructor(maxBatchSize: number) {
    this.#maxBatchSize = maxBatchSize;
    this.#lowest = maxBatchSize;
  }

  /** The batch limit of a shape key. A lowered limit doubles after each minute without a lack of memory. */
  of(key: string, nowMs: number): number {
    const size = this.#sizes.get(key);
    if (size === undefined) return this.#maxBatchSize;
    if (size.most < this.#maxBatchSize && nowMs - size.sinceMs >= RETRY_MS) {
      size.most = Math.min(2 * size.most, this.#maxBatchSize);
      size.sinceMs = nowMs;
    }
    return size.most;
  }

  /**
   * Limits the batches of a shape key, because a larger one did not fit.
   * @returns whether the limit is the lowest so far of all shape keys
   */
  limit(key: string, most: number, nowMs: number): boolean {
    const before = this.#sizes.get(key)?.most ?? this.#maxBatchSize;
    this.#sizes.delete(key);
    this.#sizes.set(key, { most: Math.min(before, most), sinceMs: nowMs });
    if (this.#sizes.size > MAX_KEYS) for (const oldest of this.#sizes.keys().take(1)) this.#sizes.delete(oldest);
    const isLowest = most < this.#lowest;
    this.#lowest = Math.min(this.#lowest, most);
    return isLowest;
  }
}
