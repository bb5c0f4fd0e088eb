/** The queued items of the batcher. Decides which items form the next batch. */
import type { BatchCause } from "../base/labels.ts";
import type { BatchPolicy, Waiting } from "./batch-policy.ts";
import { BatchQueue } from "./batch-queue.ts";
import { DeprioritisedItems } from "./deprioritised-items.ts";
import { FairQueue, type Group, type Queued } from "./fair-queue.ts";

/** No new batch starts once parts of failed batches have this many times `maxBatchSize` items. */
const MAX_PART_BATCHES = 2;
/**
 * Most items of a batch on the express runner, as a share of `maxBatchSize`. This extra runner takes small predictions.
 */
const EXPRESS_SHARE = 1 / 4;

export interface NextBatch<T> {
  readonly items: T[];
  readonly cause: BatchCause;
}

interface WaitingItemsOptions {
  readonly maxBatchSize: number;
  readonly maxPaddedBytes?: number | undefined;
  readonly policy: BatchPolicy;
  readonly mostOf: (key: string) => number;
}

export class WaitingItems<T extends Queued> {
  readonly #options: WaitingItemsOptions;
  readonly #queue = new FairQueue<T>();
  /** Halves of failed batches. Other items do not join them, so log2(n) runs find one bad item among n. */
  readonly #parts = new BatchQueue<T>();
  #wasPart = false;
  readonly #deprioritised = new DeprioritisedItems<T>();
  readonly #express = new BatchQueue<T>();
  /** When the next waiting batch may start, by the last call of `forFreeRunner`; Infinity if none waits. */
  dueAtMs = Infinity;
  isHurried = false;

  constructor(options: WaitingItemsOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#queue.length + this.#parts.length + this.#deprioritised.length + this.#express.length;
  }

  /**
   * Whether a busy runner may get its next batch early. False without new items, and while parts of failed batches
   * wait, because these need an idle runner.
   */
  get mayCommit(): boolean {
    return this.#parts.length === 0 && this.#queue.length > 0;
  }

  add(item: T): void {
    if (!this.#deprioritised.add(item)) this.#queue.add(item);
    this.#options.policy.arrived(item.key, item.readyAtMs);
  }

  addParts(parts: readonly T[][]): void {
    if (!this.#deprioritised.addParts(parts)) this.#parts.add(...parts);
  }

  remove(lane: object): T[] {
    return [this.#parts, this.#deprioritised, this.#express, this.#queue].flatMap((items) => items.remove(lane));
  }

  /** Deprioritises a prediction. @returns its queued items */
  blame(lane: object): T[] {
    this.#deprioritised.blame(lane);
    const items = this.#queue.remove(lane);
    for (const item of items) this.#deprioritised.add(item);
    return items;
  }

  dispatched(batch: readonly T[], nowMs: number): void {
    this.#deprioritised.dispatched(batch, nowMs);
  }

  ran(batch: readonly T[], ms: number): void {
    this.#options.policy.ran(batch.length, ms);
    this.#queue.ran(batch, ms);
  }

  /**
   * The next batch of a free runner: new items and parts of failed batches take turns. Deprioritised predictions go
   * first when they are due; otherwise they run when nothing else waits.
   */
  forFreeRunner(nowMs: number): NextBatch<T> | undefined {
    this.dueAtMs = Infinity;
    if (this.#deprioritised.isDue) return this.#deprioritisedBatch();
    const batch = this.#isNewNext ? this.#due(nowMs) : undefined;
    const part = batch === undefined ? this.#parts.shift() : undefined;
    this.#wasPart = part !== undefined;
    if (batch !== undefined) return batch;
    if (part !== undefined) return { items: part, cause: "part" };
    const express = this.#express.shift();
    if (express !== undefined) return { items: express, cause: "idle" };
    if (this.#deprioritised.length === 0) return undefined;
    if (this.#deprioritised.idleAtMs <= nowMs) return this.#deprioritisedBatch();
    this.dueAtMs = Math.min(this.dueAtMs, this.#deprioritised.idleAtMs);
    return undefined;
  }

  /**
   * A full batch, or a due batch of deprioritised items, for a runner that is free at `freeAtMs`. Undefined if a
   * partial batch is next: it starts only on an idle runner.
   */
  forBusyRunner(nowMs: number, freeAtMs: number): NextBatch<T> | undefined {
    if (this.#deprioritised.isDue) return this.#deprioritisedBatch();
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group, nowMs, freeAtMs);
      if (isFull) return { items: this.#take(group, size), cause: "full" };
      if (dueAtMs <= nowMs) return undefined;
    }
    return undefined;
  }

  forExpress(): NextBatch<T> | undefined {
    const items = this.#express.shift();
    return items && { items, cause: "express" };
  }

  /**
   * Sets items of new small predictions aside for the express runner (an extra runner). If another runner is free,
   * enough items for its full batch stay.
   */
  reserveExpress(nowMs: number, isRunnerFree: boolean): void {
    const { maxBatchSize, maxPaddedBytes, policy } = this.#options;
    const most = EXPRESS_SHARE * maxBatchSize;
    if (this.#express.length > 0 || (isRunnerFree && this.#queue.length < maxBatchSize + most)) return;
    const isDue = ({ key, readyAtMs }: T, ready: number) =>
      this.isHurried || policy.dueAtMs({ key, ready, oldestAtMs: readyAtMs }, nowMs) <= nowMs;
    const items = this.#queue.takeSmall(most, isDue, maxPaddedBytes);
    if (items.length > 0) this.#express.add(items);
  }

  /** Whether a new batch goes before the next part of a failed batch. They alternate, unless too many parts wait. */
  get #isNewNext(): boolean {
    if (this.#parts.length === 0) return true;
    return this.#wasPart && this.#parts.length < MAX_PART_BATCHES * this.#options.maxBatchSize;
  }

  #deprioritisedBatch(): NextBatch<T> | undefined {
    const items = this.#deprioritised.take(this.#options.mostOf, this.#options.maxPaddedBytes);
    return items && { items, cause: "late" };
  }

  #due(nowMs: number): NextBatch<T> | undefined {
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group, nowMs, nowMs);
      this.dueAtMs = Math.min(this.dueAtMs, dueAtMs);
      if (dueAtMs > nowMs) continue;
      const idle = this.isHurried ? "drain" : "idle";
      return { items: this.#take(group, size), cause: isFull ? "full" : dueAtMs > -Infinity ? "delay" : idle };
    }
    return undefined;
  }

  #take(group: Group<T>, size: number): T[] {
    return this.#queue.take(group, size, this.#options.maxPaddedBytes);
  }

  /** The size of a batch of `group` that starts at `beginMs`, and when to dispatch it. */
  #plan(group: Group<T>, nowMs: number, beginMs: number): { size: number; isFull: boolean; dueAtMs: number } {
    const { policy, mostOf } = this.#options;
    const most = mostOf(group.key);
    const waiting: Waiting = {
      key: group.key,
      ready: Math.min(group.length, most),
      // A getter, because finding the oldest item of a large group is slow.
      get oldestAtMs() {
        return group.oldestReadyAtMs();
      },
    };
    const size = policy.sizeOf(waiting, nowMs, beginMs);
    const isFull = group.length > size || group.length >= most;
    return { size, isFull, dueAtMs: isFull || this.isHurried ? -Infinity : policy.dueAtMs(waiting, nowMs) };
  }
}
