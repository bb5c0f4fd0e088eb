/** How many items of each shape fit into the device's memory: fewer once a batch did not, and more again after a time. */

interface Size {
  most: number;
  /** Since when it has been so. */
  sinceMs: number;
  /** The least that was reported. */
  told: number;
}

/** Other users of the memory may have freed it by then. If not, one batch fails in vain. */
const RETRY_MS = 60_000;
/** Limit of remembered shapes: clients choose free dimensions. */
const MAX_KEYS = 1000;

export class FittingSizes {
  readonly #maxBatchSize: number;
  readonly #sizes = new Map<string, Size>();

  constructor(maxBatchSize: number) {
    this.#maxBatchSize = maxBatchSize;
  }

  /** Most items of a batch with this key; twice as many as before each time that the last ones have fitted for long enough. */
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
   * A batch of so many items did not fit. Those that were committed before that was known do not either, and are not news.
   * @returns what fits as far as is known, where that is less than it ever was
   */
  tooLarge(key: string, items: number, nowMs: number): number | undefined {
    const size = this.#sizes.get(key) ?? { most: this.#maxBatchSize, sinceMs: nowMs, told: Infinity };
    if (items > size.most) return undefined;
    while (size.most >= items) size.most >>= 1;
    size.sinceMs = nowMs;
    const isNews = size.most < size.told;
    size.told = Math.min(size.told, size.most);
    // Forgets the shape whose last failure is the oldest.
    this.#sizes.delete(key);
    this.#sizes.set(key, size);
    if (this.#sizes.size > MAX_KEYS) for (const oldest of this.#sizes.keys().take(1)) this.#sizes.delete(oldest);
    return isNews ? size.most : undefined;
  }
}
