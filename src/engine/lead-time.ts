/** How long before a batch ends the next one is given to its runner, so that the device does not wait for the event loop. */

/** Shortest lead: timers have whole milliseconds. */
const LEAST_MS = 2;
/** Longest lead. A committed batch takes no later items, so a longer lead costs more than an idle device. */
export const MOST_LEAD_MS = 20;
/** Maxima are kept for spans of this length. */
const SPAN_MS = 1000;

/** The largest value of the last one to two seconds; 0 without a positive value. */
class RecentMaximum {
  #spanEndsAtMs = 0;
  #ofSpan = 0;
  #ofSpanBefore = 0;

  observe(value: number, nowMs: number): void {
    this.#beginSpan(nowMs);
    if (value > this.#ofSpan) this.#ofSpan = value;
  }

  at(nowMs: number): number {
    this.#beginSpan(nowMs);
    return Math.max(this.#ofSpan, this.#ofSpanBefore);
  }

  #beginSpan(nowMs: number): void {
    if (nowMs < this.#spanEndsAtMs) return;
    this.#ofSpanBefore = nowMs < this.#spanEndsAtMs + SPAN_MS ? this.#ofSpan : 0;
    this.#ofSpan = 0;
    this.#spanEndsAtMs = nowMs + SPAN_MS;
  }
}

/**
 * The lead covers the recent delays of timers and the recent differences between expected and actual batch times. An idle event loop needs 2 ms, a
 * busy one 20 ms.
 */
export class LeadTime {
  readonly #timerDelay = new RecentMaximum();
  readonly #earliness = new RecentMaximum();
  /** Time of the newest batch on any runner: the estimate for a runner without a batch so far. */
  lastMs = 0;

  ms(nowMs: number): number {
    return Math.min(MOST_LEAD_MS, LEAST_MS + this.#timerDelay.at(nowMs) + this.#earliness.at(nowMs));
  }

  /** A timer for `atMs` fired now. */
  woke(atMs: number, nowMs: number): void {
    this.#timerDelay.observe(nowMs - atMs, nowMs);
  }

  /** A batch took `ms` instead of the expected `expectedMs`. */
  ran(ms: number, expectedMs: number, nowMs: number): void {
    this.#earliness.observe(expectedMs - ms, nowMs);
  }
}
