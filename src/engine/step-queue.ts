/**
 * Items that wait for free places in runners with steps. Predictions take turns; lengths and shapes of items do not
 * matter.
 */

import { DeprioritisedItems } from "./deprioritised-items.ts";
import { FairQueue, type Queued } from "./fair-queue.ts";

interface Waiting<T> extends Queued {
  readonly item: T;
}

/** A waiting item, with the limit of its neighbours. */
export interface Joining<T> {
  readonly item: T;
  /** Maximum count of other items on all runners while the item runs. */
  readonly maxNeighbours: number;
}

const noLengths: Pick<Queued, "key" | "padded" | "length"> = { key: "", padded: new Map(), length: 0 };

export class StepQueue<T extends Queued> {
  readonly #queue = new FairQueue<Waiting<T>>();
  /** Items with a limit of neighbours. They join before all other items. */
  #limited: Joining<T>[] = [];
  /** Items of predictions with a failed item. They join after other items. */
  readonly #deprioritised = new DeprioritisedItems<Waiting<T>>();

  get length(): number {
    return this.#queue.length + this.#deprioritised.length + this.#limited.length;
  }

  /** The next item with a limit of neighbours; undefined without one. */
  get nextLimited(): Joining<T> | undefined {
    return this.#limited[0];
  }

  add(item: T): void {
    if (item.isAlone) {
      this.addLimited({ item, maxNeighbours: 0 });
      return;
    }
    const { lane, readyAtMs, isDeprioritised } = item;
    const waiting = { ...noLengths, lane, readyAtMs, isDeprioritised, item };
    if (!this.#deprioritised.add(waiting)) this.#queue.add(waiting);
  }

  addLimited(joining: Joining<T>): void {
    this.#limited.push(joining);
  }

  takeLimited(): readonly Joining<T>[] {
    return this.#limited.splice(0, 1);
  }

  take(most: number, nowMs: number): readonly Joining<T>[] {
    if (most <= 0) return [];
    const [group] = this.#queue.groups();
    const isDeprioritisedNext = group === undefined || this.#deprioritised.isDue;
    const waiting = isDeprioritisedNext ? this.#deprioritised.take(() => most) : this.#queue.take(group, most);
    if (waiting === undefined || waiting.length === 0) return [];
    this.#deprioritised.dispatched(waiting, nowMs);
    return waiting.map(({ item }) => ({ item, maxNeighbours: Infinity }));
  }

  /** Deprioritises a prediction. @returns its queued items */
  blame(lane: object): T[] {
    this.#deprioritised.blame(lane);
    const waiting = this.#queue.remove(lane);
    for (const each of waiting) this.#deprioritised.add(each);
    return waiting.map(({ item }) => item);
  }

  /** Removes the items of a prediction, and returns them. */
  remove(lane: object): T[] {
    const waiting = [...this.#queue.remove(lane), ...this.#deprioritised.remove(lane)];
    const limited = this.#limited.filter(({ item }) => item.lane === lane);
    this.#limited = this.#limited.filter(({ item }) => item.lane !== lane);
    return [...limited, ...waiting].map(({ item }) => item);
  }
}
