/**
 * The largest batch size for each shape key (sizes of free dimensions): lower after a lack of device memory, later
 * higher again.
 */

interface Size {
  most: number;
  sinceMs: number;
  /** The lowest limit that `tooLarge` has returned. */
  reported: number;
}

/** Milliseconds until a lowered limit doubles, because other programs may have freed memory. */
const RETRY_MS = 60_000;
/** Limit of remembered shape keys: clients choose the sizes of free dimensions. */
const MAX_KEYS = 1000;

export class FittingSizes {
  readonly #maxBatchSize: number;
  readonly #sizes = new Map<string, Size>();

  constructor(maxBatchSize: number) {
    this.#maxBatchSize = maxBatchSize;
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
   * Notes that a batch of `items` items did not fit. A batch above the limit is ignored: it was formed before the limit
   * fell.
   * @returns the new limit if it is the lowest of this key so far, otherwise undefined
   */
  tooLarge(key: string, items: number, nowMs: number): number | undefined {
    const size = this.#sizes.get(key) ?? { most: this.#maxBatchSize, sinceMs: nowMs, reported: Infinity };
    if (items > size.most) return undefined;
    while (size.most >= items) size.most >>= 1;
    size.sinceMs = nowMs;
    const isNews = size.most < size.reported;
    size.reported = Math.min(size.reported, size.most);
    this.#sizes.delete(key);
    this.#sizes.set(key, size);
    if (this.#sizes.size > MAX_KEYS) for (const oldest of this.#sizes.keys().take(1)) this.#sizes.delete(oldest);
    return isNews ? size.most : undefined;
  }
}
