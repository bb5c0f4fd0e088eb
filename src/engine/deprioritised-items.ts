/**
 * Items that run after the items of other predictions: items of shadow models, and of predictions with a failed item,
 * which need many batches to find the bad items.
 */
import { BatchQueue } from "./batch-queue.ts";
import { FairQueue, type Queued } from "./fair-queue.ts";

/** Count of batches of other predictions between two batches of deprioritised items. */
const OTHERS_BETWEEN = 8;
/**
 * Milliseconds without a batch of other predictions before deprioritised items start, so that a client's next request
 * finds a free runner.
 */
const IDLE_MS = 20;

export class DeprioritisedItems<T extends Queued> {
  readonly #lanes = new WeakSet<object>();
  readonly #queue = new FairQueue<T>();
  /** Parts of failed batches that have only items of deprioritised predictions. */
  readonly #parts = new BatchQueue<T>();
  #others = 0;
  #otherAtMs = -Infinity;

  get length(): number {
    return this.#queue.length + this.#parts.length;
  }

  get isDue(): boolean {
    return this.length > 0 && this.#others >= OTHERS_BETWEEN;
  }

  /** When deprioritised items may start, if no batch of other predictions is dispatched before. */
  get idleAtMs(): number {
    return this.#otherAtMs + IDLE_MS;
  }

  /** Deprioritises a prediction. Its failed batch does not count as a batch of another prediction. */
  blame(lane: object): void {
    this.#lanes.add(lane);
    this.#otherAtMs = -Infinity;
  }

  /** Adds an item of a deprioritised prediction. @returns false, without adding it, for another prediction */
  add(item: T): boolean {
    if (item.isDeprioritised) this.#lanes.add(item.lane);
    if (!this.#lanes.has(item.lane)) return false;
    this.#queue.add(item);
    return true;
  }

  /**
   * Adds the halves of a failed batch. @returns false, without adding them, if the batch has items of other predictions
   */
  addParts(parts: readonly T[][]): boolean {
    if (!this.#includes(parts.flat())) return false;
    this.#parts.add(...parts);
    return true;
  }

  take(mostOf: (key: string) => number, maxPaddedBytes?: number): T[] | undefined {
    const part = this.#parts.shift();
    if (part !== undefined) return part;
    for (const group of this.#queue.groups()) return this.#queue.take(group, mostOf(group.key), maxPaddedBytes);
    return undefined;
  }

  remove(lane: object): T[] {
    return [...this.#parts.remove(lane), ...this.#queue.remove(lane)];
  }

  dispatched(batch: readonly T[], nowMs: number): void {
    if (this.#includes(batch)) {
      this.#others = 0;
    } else {
      this.#others += 1;
      this.#otherAtMs = nowMs;
    }
  }

  #includes(items: readonly T[]): boolean {
    return items.every(({ lane }) => this.#lanes.has(lane));
  }
}
