/** A batching policy decides how many items the next batch has, and how long a partial batch waits for more. */

/** Queued items that may share a batch, because they have the same shape key (sizes of free dimensions). */
export interface Waiting {
  readonly key: string;
  /** Count of waiting items, capped at the largest batch size. */
  readonly ready: number;
  /** When the oldest item became ready, in milliseconds of the batcher's clock. */
  readonly oldestAtMs: number;
}

export interface BatchPolicy {
  arrived(key: string, atMs: number): void;
  ran(size: number, ms: number): void;
  /** The size of the next batch. `beginMs` is the time at which the batch can start. */
  sizeOf(waiting: Waiting, nowMs: number, beginMs: number): number;
  /** When a free runner starts a batch that is not full. A time in the past means at once. */
  dueAtMs(waiting: Waiting, nowMs: number): number;
  /** Expected milliseconds of a batch of `size` items; 0 when nothing is known. */
  runMs(size: number): number;
}

/**
 * The policy of a fixed delay: batches are as large as possible. A partial batch starts once its oldest item has waited
 * for the delay.
 */
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
