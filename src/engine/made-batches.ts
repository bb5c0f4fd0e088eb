/** Complete batches in a queue. No other item joins them. */
import type { Queued } from "./fair-queue.ts";

export class MadeBatches<T extends Queued> {
  #batches: T[][] = [];

  /** Items, not batches. */
  get length(): number {
    return this.#batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  add(...batches: readonly T[][]): void {
    this.#batches.push(...batches);
  }

  shift(): T[] | undefined {
    return this.#batches.shift();
  }

  /** Takes every item of a lane away. */
  remove(lane: object): T[] {
    const items = this.#batches.flat().filter((item) => item.lane === lane);
    if (items.length > 0) {
      const left = this.#batches.map((batch) => batch.filter((item) => item.lane !== lane));
      this.#batches = left.filter((batch) => batch.length > 0);
    }
    return items;
  }
}
