/**
 * Estimates how long a new prediction waits for its first turn, from the rate at which earlier ones began while the
 * server was full.
 */

/** Half-life of the counts, in milliseconds of busy time. */
const HALF_LIFE_MS = 5000;
/** With less busy time than this, in milliseconds, the rate is unknown. */
const LEAST_BUSY_MS = 1000;

export class DrainRate {
  readonly #inService: () => number;
  #begun = 0;
  #busyMs = 0;
  /** Start of the busy time that `#busyMs` does not include yet; undefined while the server is idle. */
  #busySinceMs: number | undefined;

  /**
   * @param inService returns the count of items that have begun and not ended. Old counts lose weight, but the rate is
   * computed from at least this many begun items, because fewer say little.
   */
  constructor(inService: () => number) {
    this.#inService = inService;
  }

  /** Notes that items wait for a full server from `nowMs` on. */
  busy(nowMs: number): void {
    this.#busySinceMs ??= nowMs;
  }

  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** Notes that `count` items began. @param isIdle whether no item waits any more */
  begun(count: number, nowMs: number, isIdle: boolean): void {
    const passedMs = this.#passedMs(nowMs);
    const leastWeight = Math.min(1, this.#inService() / Math.max(this.#begun, 1));
    const weight = Math.max(0.5 ** (passedMs / HALF_LIFE_MS), leastWeight);
    this.#begun = this.#begun * weight + count;
    this.#busyMs = this.#busyMs * weight + passedMs;
    this.#busySinceMs = isIdle ? undefined : nowMs;
  }

  /**
   * Expected milliseconds until a new item begins behind `ahead` others; 0 for an unknown rate. Busy time counts at
   * once, so the wait behind a device that hangs grows by the second. Before anything has begun, the wait is the busy
   * time.
   */
  waitMs(ahead: number, nowMs: number): number {
    const busyMs = this.#busyMs + this.#passedMs(nowMs);
    const begun = Math.max(this.#begun, this.#inService()) || ahead;
    return busyMs < LEAST_BUSY_MS || ahead === 0 ? 0 : (ahead * busyMs) / begun;
  }

  #passedMs(nowMs: number): number {
    return this.#busySinceMs === undefined ? 0 : Math.max(0, nowMs - this.#busySinceMs);
  }
}
