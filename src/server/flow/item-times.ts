/** Measures how long items take from the end of `preprocess` to their output rows. */
import type { ListItem } from "./item-list.ts";

/** Weight of the newest item in a mean. */
const NEWEST_WEIGHT = 0.05;
/** Largest time that counts, as a multiple of the mean: a device that hung once is not slow. */
const MAX_SURPRISE = 2;
/** Weight of a slower item in the least time. A faster item counts at once. */
const SLOWER_WEIGHT = 0.02;

export class ItemTimes {
  /** The least recent time from ready to finished, in milliseconds. 0 before the first item. */
  leastMs = 0;
  /** Mean milliseconds from ready to finished; quarantined clients do not count. */
  meanMs = 0;
  /** Mean milliseconds from dispatched to finished: the batch, and the rest of the batch before it. */
  runMs = 0;

  finished({ lane, readyAtMs, dispatchedAtMs }: ListItem, nowMs: number): void {
    const ms = nowMs - readyAtMs;
    if (this.leastMs === 0 || ms < this.leastMs) this.leastMs = ms;
    else this.leastMs += SLOWER_WEIGHT * (ms - this.leastMs);
    if (lane.isQuarantined) return;
    this.meanMs = nextMean(this.meanMs, ms);
    this.runMs = nextMean(this.runMs, nowMs - dispatchedAtMs);
  }
}

function nextMean(mean: number, value: number): number {
  return mean === 0 ? value : mean + NEWEST_WEIGHT * (Math.min(value, MAX_SURPRISE * mean) - mean);
}
