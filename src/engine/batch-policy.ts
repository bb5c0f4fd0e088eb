/** A batching policy decides the size of the next batch, and how long its items may wait for more. */

/** Queued items that may share a batch. */
export interface Waiting {
  readonly key: string;
  /** How many items, up to the largest batch. */
  readonly ready: number;
  /** When the oldest item became ready. */
  readonly oldestAtMs: number;
}

export interface BatchPolicy {
  /** An item with this key became ready. */
  arrived(key: string, atMs: number): void;
  /** A batch of `size` items took `ms`. */
  ran(size: number, ms: number): void;
  /** The size of the next batch, which starts at `beginMs`. */
  sizeOf(waiting: Waiting, nowMs: number, beginMs: number): number;
  /** Time at which a free runner starts a partial batch. A time in the past starts the batch at once. */
  dueAtMs(waiting: Waiting, nowMs: number): number;
  /** How long a batch of `size` items is expected to take; 0 when nothing is known. */
  runMs(size: number): number;
}

/** The policy of a fixed delay: batches are as large as possible, and a partial batch waits for the delay of its oldest item. */
export class QueueDelay implements BatchPolicy {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }

  arrived(): void {}

  ran(): void {}

  sizeOf({ ready }: Waiting): number {
    return ready;
  }

  dueAtMs(waiting: Waiting): number {
    // Finding the oldest item has a cost, which a delay of 0 avoids.
    return this.ms === 0 ? -Infinity : waiting.oldestAtMs + this.ms;
  }

  runMs(): number {
    return 0;
  }
}
