/** Estimates how long a new prediction waits for its first turn, from the rate at which a full server began inputs. */

/** Half-life of the counts, in busy time. */
const HALF_LIFE_MS = 5000;
/** The rate is unknown before this much busy time. */
const LEAST_BUSY_MS = 1000;

export class DrainRate {
  #items = 0;
  #busyMs = 0;
  /** Start of the busy time that `#busyMs` does not include yet; undefined for an idle server. */
  #busySinceMs: number | undefined;

  /** The server is busy from now on. */
  begun(nowMs: number): void {
    this.#busySinceMs ??= nowMs;
  }

  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** @param isIdle whether no input waits */
  ended(items: number, nowMs: number, isIdle: boolean): void {
    const passedMs = this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs);
    const weight = 0.5 ** (passedMs / HALF_LIFE_MS);
    this.#items = this.#items * weight + items;
    this.#busyMs = this.#busyMs * weight + passedMs;
    this.#busySinceMs = isIdle ? undefined : nowMs;
  }

  /**
   * Milliseconds until one more prediction has its first turn, behind one input of each of `predictions`; 0 for an unknown rate.
   * Busy time counts at once, so the wait behind a device that hangs grows by the second.
   */
  waitMs(predictions: number, nowMs: number): number {
    const busyMs = this.#busyMs + (this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs));
    return busyMs < LEAST_BUSY_MS ? 0 : (predictions * busyMs) / Math.max(this.#items, 1);
  }
}
