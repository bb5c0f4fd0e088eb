/** Measures how long items take from the end of `preprocess` to their output rows. */
import type { ListItem } from "./item-list.ts";

/** Weight of the newest item in a mean. */
const NEWEST_WEIGHT = 0.05;
/** Longer times count as this multiple of the mean: a device that hung once is not slow. */
const MAX_SURPRISE = 2;
/** Weight of a slower item in the shortest time. A faster item counts at once. */
const SLOWER_WEIGHT = 0.02;

export class ItemTimes {
  /** Shortest recent time from the end of `preprocess` to the output rows, in milliseconds. 0 before the first item. */
  leastMs = 0;
  /** Mean time from the end of `preprocess` to the output rows, in milliseconds, without quarantined clients. */
  meanMs = 0;
  /** Mean time from dispatch in a batch to the output rows, in milliseconds, without quarantined clients. */
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
