/**
 * Estimates how long things take: the wait in a queue of inputs or predictions, and the time of a batch. It counts what
 * leaves the queue while the server is full.
 */

/** After this much busy time, in milliseconds, an old count has half its weight. */
const HALF_LIFE_MS = 5000;
/** With less busy time, in milliseconds, the rate counts as unknown. */
const LEAST_BUSY_MS = 500;

export class DrainRate {
  readonly #inService: () => number;
  #started = 0;
  #busyMs = 0;
  /** Start of the busy time that `#busyMs` lacks; undefined while no item waits. */
  #busySinceMs: number | undefined;
  /** Whether the server has been busy since the last items began. Shorter times count only until the rate is known. */
  #isWhole = false;

  /** @param inService returns the number of started, unfinished items */
  constructor(inService: () => number) {
    this.#inService = inService;
  }

  /** Notes that the server is full and items wait, from `nowMs` on. */
  busy(nowMs: number): void {
    this.#busySinceMs ??= nowMs;
  }

  /** Notes that no item waits, or the server is not full. */
  idle(): void {
    this.#busySinceMs = undefined;
    this.#isWhole = false;
  }

  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** Notes that `count` items began. */
  started(count: number, nowMs: number): void {
    if (this.#busySinceMs === undefined) return;
    if (this.#isWhole || this.#busyMs < LEAST_BUSY_MS) {
      const passedMs = this.#passedMs(nowMs);
      const leastWeight = Math.min(1, this.#inService() / Math.max(this.#started, 1));
      const weight = Math.max(0.5 ** (passedMs / HALF_LIFE_MS), leastWeight);
      this.#started = this.#started * weight + count;
      this.#busyMs = this.#busyMs * weight + passedMs;
    }
    this.#busySinceMs = nowMs;
    this.#isWhole = true;
  }

  /**
   * Expected milliseconds until an item begins that has `ahead` items before it; 0 for an unknown rate. While no item
   * begins, the expected wait grows with the time.
   */
  waitMs(ahead: number, nowMs: number): number {
    const busyMs = this.#busyMs + this.#passedMs(nowMs);
    const started = Math.max(this.#started, this.#inService()) || ahead;
    return busyMs < LEAST_BUSY_MS || ahead === 0 ? 0 : (ahead * busyMs) / started;
  }

  /** Like `waitMs` for items that include those in service, some of which have almost ended. */
  remainingMs(ahead: number, nowMs: number): number {
    const passedMs = this.#passedMs(nowMs);
    const isUsual = passedMs * this.#started < this.#inService() * this.#busyMs;
    return Math.max(0, this.waitMs(ahead, nowMs) - (isUsual ? passedMs : 0));
  }

  #passedMs(nowMs: number): number {
    return this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs);
  }
}
