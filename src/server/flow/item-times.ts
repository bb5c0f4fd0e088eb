/** How long items take from `preprocess` to their rows. */
import type { ListItem } from "./item-list.ts";

/** Weight of the newest item in a mean. */
const NEWEST_WEIGHT = 0.05;
/** The same in the least time, for slower items. A faster item counts at once. */
const SLOWER_WEIGHT = 0.02;

export class ItemTimes {
  /** The least recent time from ready to finished, in milliseconds. */
  leastMs = 0;
  /** Mean time from ready to finished. */
  meanMs = 0;
  /** Mean time from dispatched to finished: of a batch, and of the end of the batch before. */
  runMs = 0;

  finished({ lane, readyAtMs, dispatchedAtMs }: ListItem, nowMs: number): void {
    const ms = nowMs - readyAtMs;
    if (this.leastMs === 0 || ms < this.leastMs) this.leastMs = ms;
    else this.leastMs += SLOWER_WEIGHT * (ms - this.leastMs);
    if (lane.isQuarantined) return;
    this.meanMs += NEWEST_WEIGHT * (ms - this.meanMs);
    this.runMs += NEWEST_WEIGHT * (nowMs - dispatchedAtMs - this.runMs);
  }
}
