/** The waiting items of one shape key, by length. The oldest item leads the next batch; items of similar lengths join. */

import { Fifo } from "../../base/collections/fifo.ts";
import type { BatchItem } from "./batching.ts";
import { near, placeOf, type Steps, stepsOf } from "./length-steps.ts";
import { PaddedBytes } from "./padded-bytes.ts";

/** Items whose lengths are in one range, in the order of their arrival. */
interface Bucket<T> {
  /** A step on a logarithmic scale for each padded dimension. */
  readonly steps: Steps;
  readonly items: Fifo<T>;
}

/**
 * Items of similar lengths share a batch, so that padding is small (length bucketing, as `bucket_by_sequence_length` of
 * tf.data). In each padded dimension, the longest item of a batch is less than √2 times the shortest plus 7.
 */
export class ShapeGroup<T extends BatchItem> {
  readonly key: string;
  readonly #buckets = new Map<string | number, Bucket<T>>();
  length = 0;

  constructor(key: string) {
    this.key = key;
  }

  add(item: T): void {
    const steps = stepsOf(item);
    const place = placeOf(steps);
    let bucket = this.#buckets.get(place);
    if (bucket === undefined) {
      bucket = { steps, items: new Fifo() };
      this.#buckets.set(place, bucket);
    }
    bucket.items.push(item);
    this.length += 1;
  }

  get oldestReadyAtMs(): number {
    return this.#oldest()?.items.first?.readyAtMs ?? Infinity;
  }

  /**
   * Takes the oldest item, then the items nearest in length.
   * @param maxBytes limit for the padded inputs; a single item may have more
   */
  take(max: number, maxBytes: number): T[] {
    const batch: T[] = [];
    const padded = new PaddedBytes();
    for (const { steps, items } of near(this.#oldest()?.steps ?? [], this.#buckets)) {
      for (let item = items.first; item !== undefined; item = items.first) {
        const isFull = batch.length >= max || (item.padded.size > 0 && !padded.join(item.tensors, maxBytes));
        if (isFull) return batch;
        items.shift();
        batch.push(item);
        this.length -= 1;
      }
      this.#buckets.delete(placeOf(steps));
    }
    return batch;
  }

  remove(matches: (item: T) => boolean): T[] {
    const removed: T[] = [];
    for (const [place, { items }] of this.#buckets) {
      removed.push(...items.remove(matches));
      if (items.length === 0) this.#buckets.delete(place);
    }
    this.length -= removed.length;
    return removed;
  }

  #oldest(): Bucket<T> | undefined {
    let oldest: Bucket<T> | undefined;
    let oldestMs = Infinity;
    for (const bucket of this.#buckets.values()) {
      const readyAtMs = bucket.items.first?.readyAtMs ?? Infinity;
      if (readyAtMs < oldestMs) [oldest, oldestMs] = [bucket, readyAtMs];
    }
    return oldest;
  }
}
