/** A queue of batches whose items are fixed: no item joins a batch later. */
import type { Queued } from "./fair-queue.ts";

export class BatchQueue<T extends Queued> {
  #batches: T[][] = [];

  get length(): number {
    return this.#batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  /** Adds batches; empty ones are ignored. */
  add(...batches: readonly T[][]): void {
    this.#batches.push(...batches.filter(({ length }) => length > 0));
  }

  shift(): T[] | undefined {
    return this.#batches.shift();
  }

  remove(lane: object): T[] {
    const items = this.#batches.flat().filter((item) => item.lane === lane);
    if (items.length > 0) {
      const others = this.#batches.map((batch) => batch.filter((item) => item.lane !== lane));
      this.#batches = others.filter((batch) => batch.length > 0);
    }
    return items;
  }
}
