/**
 * The queue of a model with a `step` function: items that wait to join the steps of a runner. Predictions take turns.
 */

import { DeprioritisedItems } from "./deprioritised-items.ts";
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
  readonly #deprioritised = new DeprioritisedItems<Waiting<T>>();

  get length(): number {
    return this.#queue.length + this.#deprioritised.length + this.#limited.length;
  }

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

  blame(lane: object): T[] {
    this.#deprioritised.blame(lane);
    const waiting = this.#queue.remove(lane);
    for (const each of waiting) this.#deprioritised.add(each);
    return waiting.map(({ item }) => item);
  }

  remove(lane: object): T[] {
    const waiting = [...this.#queue.remove(lane), ...this.#deprioritised.remove(lane)];
    const limited = this.#limited.filter(({ item }) => item.lane === lane);
    this.#limited = this.#limited.filter(({ item }) => item.lane !== lane);
    return [...limited, ...waiting].map(({ item }) => item);
  }
}
