/** How long before a batch ends the next one is given to its runner, so that the device does not wait for the event loop. */
import { RecentMost } from "./recent-most.ts";

/** Of handing a batch over, and of a timer's whole milliseconds. */
const LEAST_MS = 2;
/** What the loop is busy with for longer is not worth to be made up for: later items would wait behind a batch that might have had them. */
export const MOST_LEAD_MS = 20;

/**
 * As short as the device stays busy with: what comes after a batch was given waits for that batch. Learned from how late timers have been
 * and how much sooner than expected batches have ended, in the last seconds: a loop that reads little needs 2 ms, one that is full 20.
 */
export class LeadTime {
  readonly #late = new RecentMost();
  readonly #early = new RecentMost();
  /** Of the batch that ended last on any runner: what is expected of one that has run none. */
  lastMs = 0;

  ms(nowMs: number): number {
    return Math.min(MOST_LEAD_MS, LEAST_MS + this.#late.at(nowMs) + this.#early.at(nowMs));
  }

  /** A timer for `atMs` had its turn now. */
  woke(atMs: number, nowMs: number): void {
    this.#late.observe(nowMs - atMs, nowMs);
  }

  /** A batch took `ms`, where `expectedMs` was expected. */
  ran(ms: number, expectedMs: number, nowMs: number): void {
    this.#early.observe(expectedMs - ms, nowMs);
  }
}
