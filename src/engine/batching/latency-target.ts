/**
 * Limits the size of batches for a latency target, by additive increase and multiplicative decrease (Clipper, NSDI
 * 2017).
 */

/** Factor that lowers the limit after a slow batch. */
const DECREASE = 0.9;

/**
 * An item that just misses a batch waits for the end of this batch, and then for the next batch. So a batch may take
 * half of the target. The limit grows by one item after each full batch in time.
 */
export class LatencyTarget {
  readonly #maxBatchMs: number;
  #limit = 1;

  /**
   * @param ms target in milliseconds, from the time when an item is ready to the end of its batch
   * @param measured milliseconds of a batch by its size, from warm-up: the first limit is the largest size in time
   */
  constructor(ms: number, measured: ReadonlyMap<number, number>) {
    this.#maxBatchMs = ms / 2;
    for (const [size, batchMs] of measured) if (batchMs <= this.#maxBatchMs) this.#limit = Math.max(this.#limit, size);
  }

  /** Maximum items in the next batch. */
  get limit(): number {
    return this.#limit;
  }

  ran(size: number, ms: number): void {
    if (ms > this.#maxBatchMs) this.#limit = Math.max(1, Math.floor(DECREASE * this.#limit));
    else if (size >= this.#limit) this.#limit += 1;
  }
}
