/** The queue of the engine: ready items in the order of their places, by shape key, and parts of failed batches. */
import type { Tensor } from "../../author/tensor.ts";
import { Fifo } from "../../base/collections/fifo.ts";
import type { BatchCause } from "../../base/labels.ts";
import type { BatchItem } from "./batching.ts";

/** Default limit in bytes for the padded inputs of a batch. */
export const MAX_PADDED_BYTES = 256 * 2 ** 20;
/** No new batch starts once parts of failed batches have this many times `maxBatchSize` items. */
const MAX_PART_BATCHES = 2;

export interface NextBatch<T> {
  readonly items: readonly T[];
  readonly cause: BatchCause;
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
  /** Batches that start before all other items, and run while nothing else runs. */
  #alone: (readonly T[])[] = [];
  #wasPart = false;
  /** Count of started items, without the items of parts. */
  #started = 0;
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

  get hasAlone(): boolean {
    return this.#alone.length > 0;
  }

  add(item: T): void {
    if (item.isAlone) {
      this.addAlone([item]);
      return;
    }
    item.place ??= this.#started + item.ahead;
    let group = this.#groups.get(item.key);
    if (group === undefined) {
      group = new ShapeGroup(item.key);
      this.#groups.set(item.key, group);
    }
    group.add(item);
    this.length += 1;
  }

  addAlone(items: readonly T[]): void {
    if (items.length > 0) this.#alone.push(items);
    this.length += items.length;
  }

  /** Adds parts of a failed batch; empty ones are ignored. */
  addParts(parts: readonly (readonly T[])[]): void {
    for (const part of parts) {
      if (part.length > 0) this.#parts.push(part);
      this.length += part.length;
    }
  }

  takeAlone(): readonly T[] {
    const items = this.#alone.shift() ?? [];
    this.length -= items.length;
    return items;
  }

  /** The first items of all shape keys, which start one by one. */
  takeFirst(most: number): T[] {
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
    const removed = [...this.#alone, ...this.#parts].flatMap((items) => items.filter(matches));
    if (removed.length > 0) {
      const kept = (batches: readonly (readonly T[])[]) =>
        batches.map((items) => items.filter((item) => !matches(item))).filter(({ length }) => length > 0);
      this.#alone = kept(this.#alone);
      this.#parts = kept(this.#parts);
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

  /** The group with the first item, among the groups whose batch may start now. */
  #next(nowMs: number): Next<T> | undefined {
    const { maxQueueDelayMs, mostOf } = this.#options;
    let next: Next<T> | undefined;
    let before: T | undefined;
    for (const group of this.#groups.values()) {
      const most = mostOf(group.key);
      const isFull = group.length >= most;
      const dueAtMs = isFull || maxQueueDelayMs === 0 ? -Infinity : group.oldestReadyAtMs + maxQueueDelayMs;
      const { first } = group;
      if (dueAtMs > nowMs) this.dueAtMs = Math.min(this.dueAtMs, dueAtMs);
      else if (first !== undefined && isBefore(first, before)) [next, before] = [{ group, most, isFull }, first];
    }
    return next;
  }

  #take(group: ShapeGroup<T>, most: number): T[] {
    const items = group.take(most, this.#options.maxPaddedBytes ?? MAX_PADDED_BYTES);
    this.length -= items.length;
    this.#started += items.length;
    if (group.length === 0) this.#groups.delete(group.key);
    return items;
  }
}

/** Whether an item has an earlier place; at equal places, whether it has waited longer. */
function isBefore(item: BatchItem, other: BatchItem | undefined): boolean {
  if (other === undefined) return true;
  const places = placeOf(item) - placeOf(other);
  return places < 0 || (places === 0 && item.readyAtMs < other.readyAtMs);
}

function placeOf({ place = 0 }: BatchItem): number {
  return place;
}

/** Steps on a logarithmic scale from a length to its double. */
const STEPS_PER_OCTAVE = 12;
/** Adjacent steps that may share a batch: half an octave. */
const MAX_SPAN = 6;
/** Fixed cost of an item in elements, added to each length so that items of short lengths share batches. */
const BASE_LENGTH = 16;

/**
 * The waiting items of one shape key, by length. The first item leads the next batch; items of similar lengths join, so
 * that padding is small (length bucketing, as `bucket_by_sequence_length` of tf.data). The longest item of a batch is
 * less than √2 times the shortest plus 7.
 */
class ShapeGroup<T extends BatchItem> {
  readonly key: string;
  /** Items in the order of their places, by the step of their length. */
  readonly #buckets = new Map<number, Fifo<T>>();
  length = 0;

  constructor(key: string) {
    this.key = key;
  }

  add(item: T): void {
    let length = item.padded.size === 0 ? 0 : 1;
    for (const size of item.padded.values()) length *= size;
    const step = Math.floor(STEPS_PER_OCTAVE * Math.log2(length + BASE_LENGTH));
    const bucket = this.#buckets.get(step);
    if (bucket !== undefined) {
      const place = placeOf(item);
      if (bucket.last === undefined || placeOf(bucket.last) <= place) bucket.push(item);
      else bucket.insert(item, (other) => placeOf(other) > place);
    } else {
      const items = new Fifo<T>();
      items.push(item);
      this.#buckets.set(step, items);
    }
    this.length += 1;
  }

  get oldestReadyAtMs(): number {
    let oldestMs = Infinity;
    for (const items of this.#buckets.values()) {
      for (const { readyAtMs } of items.rest()) oldestMs = Math.min(oldestMs, readyAtMs);
    }
    return oldestMs;
  }

  get first(): T | undefined {
    return this.#buckets.get(this.#firstStep())?.first;
  }

  /**
   * Takes the first item, then the items nearest in length.
   * @param maxBytes limit for the padded inputs; a single item may have more
   */
  take(max: number, maxBytes: number): T[] {
    const batch: T[] = [];
    const padded = new PaddedBytes();
    const first = this.#firstStep();
    let [least, most] = [first, first];
    // At equal distance shorter lengths go first, because longer ones lengthen the whole batch.
    for (let i = 1; i < 2 * MAX_SPAN; i++) {
      const step = first + (i % 2 === 0 ? -(i >> 1) : i >> 1);
      const items = this.#buckets.get(step);
      if (items === undefined || Math.max(most, step) - Math.min(least, step) >= MAX_SPAN) continue;
      [least, most] = [Math.min(least, step), Math.max(most, step)];
      for (let item = items.first; item !== undefined; item = items.first) {
        const isFull = batch.length >= max || (item.padded.size > 0 && !padded.join(item.tensors, maxBytes));
        if (isFull) return batch;
        items.shift();
        batch.push(item);
        this.length -= 1;
      }
      this.#buckets.delete(step);
    }
    return batch;
  }

  remove(matches: (item: T) => boolean): T[] {
    const removed: T[] = [];
    for (const [step, items] of this.#buckets) {
      removed.push(...items.remove(matches));
      if (items.length === 0) this.#buckets.delete(step);
    }
    this.length -= removed.length;
    return removed;
  }

  #firstStep(): number {
    let [leading, before]: [number, T | undefined] = [0, undefined];
    for (const [step, { first }] of this.#buckets) {
      if (first !== undefined && isBefore(first, before)) [leading, before] = [step, first];
    }
    return leading;
  }
}

/** Counts the bytes of a batch's inputs, with each dimension padded to the largest size in the batch. */
export class PaddedBytes {
  #items = 0;
  #itemBytes = 0;
  /** The largest size so far of each dimension of each tensor. */
  #sizes: readonly (readonly number[])[] = [];

  /** Bytes of the padded batch. */
  get bytes(): number {
    return this.#items * this.#itemBytes;
  }

  /**
   * Adds an item if it is the first, or if the padded batch then has at most `maxBytes`. @returns whether it was added
   */
  join(tensors: readonly Tensor[], maxBytes: number): boolean {
    let bytes = 0;
    const joined = tensors.map(({ shape, data }, i) => {
      const known = this.#sizes[i];
      const sizes = shape.map((size, dim) => Math.max(size, known?.[dim] ?? 0));
      bytes += sizes.reduce((product, size) => product * size, data.BYTES_PER_ELEMENT);
      return sizes;
    });
    if (this.#items > 0 && bytes * (this.#items + 1) > maxBytes) return false;
    this.#sizes = joined;
    this.#itemBytes = bytes;
    this.#items += 1;
    return true;
  }
}
