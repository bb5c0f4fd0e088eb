/** Estimates how long a new prediction waits for its first turn, from the rate at which a full server began earlier ones. */

/** Half-life of the counts, in busy time. */
const HALF_LIFE_MS = 5000;
/** The rate is unknown before this much busy time. */
const LEAST_BUSY_MS = 1000;

export class DrainRate {
  readonly #inService: () => number;
  #begun = 0;
  #busyMs = 0;
  /** Start of the busy time that `#busyMs` does not include yet; undefined for an idle server. */
  #busySinceMs: number | undefined;

  /**
   * @param inService how many have begun and not ended. Usually as many begin when these end, so the counts always cover that many: fewer say
   * little about the rate.
   */
  constructor(inService: () => number) {
    this.#inService = inService;
  }

  /** The server is busy from now on. */
  busy(nowMs: number): void {
    this.#busySinceMs ??= nowMs;
  }

  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** @param isIdle whether none waits */
  begun(count: number, nowMs: number, isIdle: boolean): void {
    const passedMs = this.#passedMs(nowMs);
    const leastWeight = Math.min(1, this.#inService() / Math.max(this.#begun, 1));
    const weight = Math.max(0.5 ** (passedMs / HALF_LIFE_MS), leastWeight);
    this.#begun = this.#begun * weight + count;
    this.#busyMs = this.#busyMs * weight + passedMs;
    this.#busySinceMs = isIdle ? undefined : nowMs;
  }

  /**
   * Milliseconds until one more has its first turn, behind `ahead` others; 0 for an unknown rate. Busy time counts at once, so the wait behind a
   * device that hangs grows by the second. Before anything has begun, the wait is the busy time.
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
