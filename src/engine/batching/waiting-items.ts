/** The queued items of the batcher. Decides which items form the next batch. */
import type { BatchCause } from "../../base/labels.ts";
import { BatchQueue } from "./batch-queue.ts";
import { FairQueue, type Group, type Queued } from "./fair-queue.ts";

/** No new batch starts once parts of failed batches have this many times `maxBatchSize` items. */
const MAX_PART_BATCHES = 2;

export interface NextBatch<T> {
  readonly items: T[];
  readonly cause: BatchCause;
}

interface WaitingItemsOptions {
  readonly maxBatchSize: number;
  readonly maxPaddedBytes?: number | undefined;
  /** Milliseconds that a free runner waits for a full batch, from the time when the oldest item became ready. */
  readonly maxQueueDelayMs: number;
  readonly mostOf: (key: string) => number;
}

export class WaitingItems<T extends Queued> {
  readonly #options: WaitingItemsOptions;
  readonly #queue = new FairQueue<T>();
  /** Halves of failed batches. Other items do not join them, so log2(n) runs find one bad item among n. */
  readonly #parts = new BatchQueue<T>();
  #wasPart = false;
  /** When the next waiting batch may start, by the last call of `forFreeRunner`; Infinity if none waits. */
  dueAtMs = Infinity;

  constructor(options: WaitingItemsOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#queue.length + this.#parts.length;
  }

  /**
   * Whether a busy runner may get its next batch early. False without new items, and while parts of failed batches
   * wait, because these need an idle runner.
   */
  get mayCommit(): boolean {
    return this.#parts.length === 0 && this.#queue.length > 0;
  }

  add(item: T): void {
    this.#queue.add(item);
  }

  addParts(parts: readonly T[][]): void {
    this.#parts.add(...parts);
  }

  remove(lane: object): T[] {
    return [this.#parts, this.#queue].flatMap((items) => items.remove(lane));
  }

  /** The next batch of a free runner: new items and parts of failed batches take turns. */
  forFreeRunner(nowMs: number): NextBatch<T> | undefined {
    this.dueAtMs = Infinity;
    const batch = this.#isNewNext ? this.#due(nowMs) : undefined;
    const part = batch === undefined ? this.#parts.shift() : undefined;
    this.#wasPart = part !== undefined;
    return part === undefined ? batch : { items: part, cause: "part" };
  }

  /** A full batch for a busy runner. Undefined if a partial batch is next: it starts only on an idle runner. */
  forBusyRunner(nowMs: number): NextBatch<T> | undefined {
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group);
      if (isFull) return { items: this.#take(group, size), cause: "full" };
      if (dueAtMs <= nowMs) return undefined;
    }
    return undefined;
  }

  /** Whether a new batch goes before the next part of a failed batch. They alternate, unless too many parts wait. */
  get #isNewNext(): boolean {
    if (this.#parts.length === 0) return true;
    return this.#wasPart && this.#parts.length < MAX_PART_BATCHES * this.#options.maxBatchSize;
  }

  #due(nowMs: number): NextBatch<T> | undefined {
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group);
      this.dueAtMs = Math.min(this.dueAtMs, dueAtMs);
      if (dueAtMs > nowMs) continue;
      return { items: this.#take(group, size), cause: isFull ? "full" : dueAtMs > -Infinity ? "delay" : "idle" };
    }
    return undefined;
  }

  #take(group: Group<T>, size: number): T[] {
    return this.#queue.take(group, size, this.#options.maxPaddedBytes);
  }

  /** The size of the next batch of `group`, and when to dispatch it. */
  #plan(group: Group<T>): { size: number; isFull: boolean; dueAtMs: number } {
    const { maxQueueDelayMs, mostOf } = this.#options;
    const most = mostOf(group.key);
    const isFull = group.length >= most;
    // Finding the oldest item of a large group is slow, which a delay of 0 avoids.
    const isDue = isFull || maxQueueDelayMs === 0;
    const dueAtMs = isDue ? -Infinity : group.oldestReadyAtMs() + maxQueueDelayMs;
    return { size: Math.min(group.length, most), isFull, dueAtMs };
  }
}
