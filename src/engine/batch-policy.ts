/** A batching policy: how many of the items that wait make the next batch, and how long they may wait for more. */

/** Items that wait for a runner and may share a batch. */
export interface Waiting {
  readonly key: string;
  /** How many items, up to the largest batch. */
  readonly ready: number;
  /** When the one that has been ready the longest became so. */
  readonly oldestAtMs: number;
}

export interface BatchPolicy {
  /** An item with this key became ready. */
  arrived(key: string, atMs: number): void;
  /** A batch of `size` items took `ms`. */
  ran(size: number, ms: number): void;
  /** How many of those that wait make the next batch, on a runner that is free at `beginMs`. */
  sizeOf(waiting: Waiting, nowMs: number, beginMs: number): number;
  /** Until when those that wait, fewer than a batch may have, wait for more while a runner is free; in the past if not at all. */
  dueAtMs(waiting: Waiting, nowMs: number): number;
  /** How long a batch of `size` items is expected to take; 0 when nothing is known. */
  runMs(size: number): number;
}
