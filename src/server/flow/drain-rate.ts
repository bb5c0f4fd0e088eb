/** How fast a full server takes inputs on, learned from those that it took: it says how long a new prediction waits for its turn. */

/** Half-life of what was counted, in busy time. */
const HALF_LIFE_MS = 5000;
/** Least busy time from which a rate is told. */
const LEAST_BUSY_MS = 1000;

export class DrainRate {
  #items = 0;
  #busyMs = 0;
  /** Begin of the busy time that is not in `#busyMs` yet; undefined while there is nothing to do. */
  #busySinceMs: number | undefined;

  /** There is something to do from now on; may be told again. */
  begun(nowMs: number): void {
    this.#busySinceMs ??= nowMs;
  }

  /** Whether there was something left to do, as far as it was told. */
  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** @param isIdle whether there is nothing left to do */
  ended(items: number, nowMs: number, isIdle: boolean): void {
    const passedMs = this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs);
    const kept = 0.5 ** (passedMs / HALF_LIFE_MS);
    this.#items = this.#items * kept + items;
    this.#busyMs = this.#busyMs * kept + passedMs;
    this.#busySinceMs = isIdle ? undefined : nowMs;
  }

  /**
   * Milliseconds until one more prediction has its first turn, behind one input of each of `predictions`; 0 while too little is known.
   * Busy time counts before anything has ended in it: the wait behind a device that hangs grows by the second.
   */
  waitMs(predictions: number, nowMs: number): number {
    const busyMs = this.#busyMs + (this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs));
    return busyMs < LEAST_BUSY_MS ? 0 : (predictions * busyMs) / Math.max(this.#items, 1);
  }
}
