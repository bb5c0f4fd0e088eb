/** Items of lanes that failed: they have their turns after all others', as it takes many batches to find out which of them are bad. */
import { FairQueue, type Queued } from "./fair-queue.ts";
import { MadeBatches } from "./made-batches.ts";

/** Other batches between two batches of late items. */
const OTHERS_BETWEEN = 8;
/** Deprioritised items start after this time without another batch, so that returning clients need not wait for them. */
const IDLE_MS = 20;

export class LateItems<T extends Queued> {
  readonly #lanes = new WeakSet<object>();
  readonly #queue = new FairQueue<T>();
  /** Parts of failed batches. */
  readonly #parts = new MadeBatches<T>();
  #othersSince = 0;
  #othersAtMs = -Infinity;

  get length(): number {
    return this.#queue.length + this.#parts.length;
  }

  /** Whether others have had their turns. */
  get isDue(): boolean {
    return this.length > 0 && this.#othersSince >= OTHERS_BETWEEN;
  }

  /** From when on no other batch is expected. */
  get idleAtMs(): number {
    return this.#othersAtMs + IDLE_MS;
  }

  /** Items of this lane are late from now on. The batch that failed does not count as another's. */
  blame(lane: object): void {
    this.#lanes.add(lane);
    this.#othersAtMs = -Infinity;
  }

  /** @returns false for an item of a lane that is not late, which is not added */
  add(item: T): boolean {
    if (item.isLate) this.#lanes.add(item.lane);
    const isLate = this.#lanes.has(item.lane);
    if (isLate) this.#queue.add(item);
    return isLate;
  }

  /** Adds the parts of a failed batch. @returns false where other lanes have items in it: then nothing is added */
  addParts(parts: readonly T[][]): boolean {
    const areLate = this.#areLate(parts.flat());
    if (areLate) this.#parts.add(...parts);
    return areLate;
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

  /** A batch was begun. */
  passed(batch: readonly T[], nowMs: number): void {
    if (this.#areLate(batch)) {
      this.#othersSince = 0;
    } else {
      this.#othersSince += 1;
      this.#othersAtMs = nowMs;
    }
  }

  #areLate(items: readonly T[]): boolean {
    return items.every(({ lane }) => this.#lanes.has(lane));
  }
}
