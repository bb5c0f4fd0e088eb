/**
 * The queue of a model with a `step` function: items that wait to join the steps of a runner. Predictions take turns.
 */

import { FairQueue, type Queued } from "./fair-queue.ts";

interface Waiting<T> extends Queued {
  readonly item: T;
}

/** A waiting item, with the number of other items that may run beside it. */
export interface Joining<T> {
  readonly item: T;
  /** Most other items on all runners together while this item runs. */
  readonly maxNeighbours: number;
}

const noLengths: Pick<Queued, "key" | "padded" | "length"> = { key: "", padded: new Map(), length: 0 };

export class StepQueue<T extends Queued> {
  readonly #queue = new FairQueue<Waiting<T>>();
  /** Items that may run beside few or no others. They join before all other items. */
  #limited: Joining<T>[] = [];

  get length(): number {
    return this.#queue.length + this.#limited.length;
  }

  get nextLimited(): Joining<T> | undefined {
    return this.#limited[0];
  }

  add(item: T): void {
    if (item.isAlone) {
      this.addLimited({ item, maxNeighbours: 0 });
      return;
    }
    const { lane, readyAtMs } = item;
    this.#queue.add({ ...noLengths, lane, readyAtMs, item });
  }

  addLimited(joining: Joining<T>): void {
    this.#limited.push(joining);
  }

  takeLimited(): readonly Joining<T>[] {
    return this.#limited.splice(0, 1);
  }

  take(most: number): readonly Joining<T>[] {
    const [group] = this.#queue.groups();
    if (most <= 0 || group === undefined) return [];
    return this.#queue.take(group, most).map(({ item }) => ({ item, maxNeighbours: Infinity }));
  }

  remove(lane: object): T[] {
    const waiting = this.#queue.remove(lane);
    const limited = this.#limited.filter(({ item }) => item.lane === lane);
    this.#limited = this.#limited.filter(({ item }) => item.lane !== lane);
    return [...limited, ...waiting].map(({ item }) => item);
  }
}
