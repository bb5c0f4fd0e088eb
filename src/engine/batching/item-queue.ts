/** The queue of the engine: ready items, first in, first out for each shape key, and parts of failed batches. */
import type { BatchCause } from "../../base/labels.ts";
import type { BatchItem } from "./batching.ts";
import { ShapeGroup } from "./shape-group.ts";

/** Default limit in bytes for the padded inputs of a batch. */
export const MAX_PADDED_BYTES = 256 * 2 ** 20;
/** No new batch starts once parts of failed batches have this many times `maxBatchSize` items. */
const MAX_PART_BATCHES = 2;

export interface NextBatch<T> {
  readonly items: readonly T[];
  readonly cause: BatchCause;
}

/** Items that run beside few or no others. Limited items start before all other items. */
export interface Limited<T> {
  readonly items: readonly T[];
  /** Most other items on all runners together while these items run; 0 for items that run alone. */
  readonly maxNeighbours: number;
}

interface Next<T extends BatchItem> {
  readonly group: ShapeGroup<T>;
  readonly most: number;
  readonly isFull: boolean;
}

interface ItemQueueOptions {
  readonly maxBatchSize: number;
  readonly maxPaddedBytes?: number | undefined;
  /** Milliseconds that a free runner waits for a full batch, from the time when the oldest item became ready. */
  readonly maxQueueDelayMs: number;
  /** The present batch limit of a shape key. */
  readonly mostOf: (key: string) => number;
}

export class ItemQueue<T extends BatchItem> {
  readonly #options: ItemQueueOptions;
  readonly #groups = new Map<string, ShapeGroup<T>>();
  /** Parts of failed batches. Other items do not join them, so log2(n) runs find one bad item among n. */
  #parts: (readonly T[])[] = [];
  #limited: Limited<T>[] = [];
  #wasPart = false;
  /** Count of all waiting items. */
  length = 0;
  /** When the next waiting batch may start, by the last call of `forFreeRunner`; Infinity if none waits. */
  dueAtMs = Infinity;

  constructor(options: ItemQueueOptions) {
    this.#options = options;
  }

  /**
   * Whether a busy runner may get its next batch early. False without new items, and while parts of failed batches
   * wait, because these need an idle runner.
   */
  get mayCommit(): boolean {
    return this.#parts.length === 0 && this.#groups.size > 0;
  }

  get nextLimited(): Limited<T> | undefined {
    return this.#limited[0];
  }

  add(item: T): void {
    if (item.isAlone) {
      this.addLimited([item], 0);
      return;
    }
    let group = this.#groups.get(item.key);
    if (group === undefined) {
      group = new ShapeGroup(item.key);
      this.#groups.set(item.key, group);
    }
    group.add(item);
    this.length += 1;
  }

  addLimited(items: readonly T[], maxNeighbours: number): void {
    if (items.length === 0) return;
    this.#limited.push({ items, maxNeighbours });
    this.length += items.length;
  }

  /** Adds parts of a failed batch; empty ones are ignored. */
  addParts(parts: readonly (readonly T[])[]): void {
    for (const part of parts) {
      if (part.length > 0) this.#parts.push(part);
      this.length += part.length;
    }
  }

  takeLimited(): Limited<T> | undefined {
    const limited = this.#limited.shift();
    this.length -= limited?.items.length ?? 0;
    return limited;
  }

  /** The oldest items of all shape keys, which start one by one. */
  takeOldest(most: number): T[] {
    const taken: T[] = [];
    while (taken.length < most) {
      const next = this.#next(Infinity);
      if (next === undefined) break;
      taken.push(...this.#take(next.group, 1));
    }
    return taken;
  }

  /** Removes the items that match. */
  remove(matches: (item: T) => boolean): T[] {
    const removed = [...this.#limited.map(({ items }) => items), ...this.#parts].flatMap((items) =>
      items.filter(matches),
    );
    if (removed.length > 0) {
      const isKept = (item: T) => !matches(item);
      this.#limited = this.#limited
        .map(({ items, maxNeighbours }) => ({ items: items.filter(isKept), maxNeighbours }))
        .filter(({ items }) => items.length > 0);
      this.#parts = this.#parts.map((part) => part.filter(isKept)).filter(({ length }) => length > 0);
    }
    for (const group of this.#groups.values()) {
      removed.push(...group.remove(matches));
      if (group.length === 0) this.#groups.delete(group.key);
    }
    this.length -= removed.length;
    return removed;
  }

  /** The next batch of a free runner: new items and parts of failed batches take turns. */
  forFreeRunner(nowMs: number): NextBatch<T> | undefined {
    this.dueAtMs = Infinity;
    const next = this.#isNewNext ? this.#next(nowMs) : undefined;
    const part = next === undefined ? this.#parts.shift() : undefined;
    this.#wasPart = part !== undefined;
    if (part !== undefined) {
      this.length -= part.length;
      return { items: part, cause: "part" };
    }
    if (next === undefined) return undefined;
    const { group, most, isFull } = next;
    return {
      items: this.#take(group, most),
      cause: isFull ? "full" : this.#options.maxQueueDelayMs > 0 ? "delay" : "idle",
    };
  }

  /** A full batch for a busy runner. Undefined if a partial batch is next: it starts only on an idle runner. */
  forBusyRunner(nowMs: number): NextBatch<T> | undefined {
    const next = this.#next(nowMs);
    return next?.isFull ? { items: this.#take(next.group, next.most), cause: "full" } : undefined;
  }

  /** Whether a new batch goes before the next part of a failed batch: both alternate, unless too many parts wait. */
  get #isNewNext(): boolean {
    if (this.#parts.length === 0) return true;
    const partItems = this.#parts.reduce((sum, { length }) => sum + length, 0);
    return this.#wasPart && partItems < MAX_PART_BATCHES * this.#options.maxBatchSize;
  }

  /** The group with the oldest item, among the groups whose batch may start now. */
  #next(nowMs: number): Next<T> | undefined {
    const { maxQueueDelayMs, mostOf } = this.#options;
    let next: Next<T> | undefined;
    let oldestMs = Infinity;
    for (const group of this.#groups.values()) {
      const most = mostOf(group.key);
      const isFull = group.length >= most;
      const readyAtMs = group.oldestReadyAtMs;
      const dueAtMs = isFull ? -Infinity : readyAtMs + maxQueueDelayMs;
      if (dueAtMs > nowMs) this.dueAtMs = Math.min(this.dueAtMs, dueAtMs);
      else if (readyAtMs < oldestMs) [next, oldestMs] = [{ group, most, isFull }, readyAtMs];
    }
    return next;
  }

  #take(group: ShapeGroup<T>, most: number): T[] {
    const items = group.take(most, this.#options.maxPaddedBytes ?? MAX_PADDED_BYTES);
    this.length -= items.length;
    if (group.length === 0) this.#groups.delete(group.key);
    return items;
  }
}
