/** The queue of items for the free places of runners with steps. Lanes take turns; lengths and shapes do not matter. */

import { BatchQueue } from "./batch-queue.ts";
import { DeprioritisedItems } from "./deprioritised-items.ts";
import { FairQueue, type Queued } from "./fair-queue.ts";

interface Waiting<T> extends Queued {
  readonly item: T;
}

const noLengths: Pick<Queued, "key" | "padded" | "length"> = { key: "", padded: new Map(), length: 0 };

export class StepQueue<T extends Queued> {
  readonly #queue = new FairQueue<Waiting<T>>();
  readonly #alone = new BatchQueue<T>();
  /** Items of lanes with a failed item. Items of other lanes join first. */
  readonly #deprioritised = new DeprioritisedItems<Waiting<T>>();

  get length(): number {
    return this.#queue.length + this.#deprioritised.length + this.#alone.length;
  }

  /** Whether the queue has a suspect of a crash. */
  get hasAlone(): boolean {
    return this.#alone.length > 0;
  }

  add(item: T): void {
    if (item.isAlone) {
      this.#alone.add([item]);
      return;
    }
    const { lane, readyAtMs, isDeprioritised } = item;
    const waiting = { ...noLengths, lane, readyAtMs, isDeprioritised, item };
    if (!this.#deprioritised.add(waiting)) this.#queue.add(waiting);
  }

  takeAlone(): readonly T[] {
    return this.#alone.shift() ?? [];
  }

  take(most: number, nowMs: number): readonly T[] {
    if (most <= 0) return [];
    const [group] = this.#queue.groups();
    const isDeprioritisedNext = group === undefined || this.#deprioritised.isDue;
    const waiting = isDeprioritisedNext ? this.#deprioritised.take(() => most) : this.#queue.take(group, most);
    if (waiting === undefined || waiting.length === 0) return [];
    this.#deprioritised.dispatched(waiting, nowMs);
    return waiting.map(({ item }) => item);
  }

  /** Deprioritises a lane. @returns its queued items */
  blame(lane: object): T[] {
    this.#deprioritised.blame(lane);
    const waiting = this.#queue.remove(lane);
    for (const each of waiting) this.#deprioritised.add(each);
    return waiting.map(({ item }) => item);
  }

  /** Removes the items of a lane. */
  remove(lane: object): T[] {
    const waiting = [...this.#queue.remove(lane), ...this.#deprioritised.remove(lane)];
    return [...this.#alone.remove(lane), ...waiting.map(({ item }) => item)];
  }
}
