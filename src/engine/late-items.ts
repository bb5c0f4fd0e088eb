/** Items of lanes that failed: they have their turns after all others', as it takes many batches to find out which of them are bad. */
import { FairQueue, type Queued } from "./fair-queue.ts";
import { MadeBatches } from "./made-batches.ts";

/** Batches of others between two of these. */
const OTHERS_BETWEEN = 8;
/** Others that were answered and come again are not kept waiting: these begin when no batch of others was begun for so long. */
const IDLE_MS = 20;

export class LateItems<T extends Queued> {
  readonly #lanes = new WeakSet<object>();
  readonly #queue = new FairQueue<T>();
  /** Of batches that failed. */
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

  /** From when on there are no others. */
  get idleAtMs(): number {
    return this.#othersAtMs + IDLE_MS;
  }

  /** What comes of this lane from now on is late. The batch that has shown it was not others'. */
  blame(lane: object): void {
    this.#lanes.add(lane);
    this.#othersAtMs = -Infinity;
  }

  /** False for an item of another lane. */
  add(item: T): boolean {
    if (item.isLate) this.#lanes.add(item.lane);
    const isLate = this.#lanes.has(item.lane);
    if (isLate) this.#queue.add(item);
    return isLate;
  }

  /** The parts of a batch that failed; false where others have items in it. */
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
