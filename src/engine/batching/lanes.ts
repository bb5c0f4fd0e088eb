/**
 * Data structures of the fair queue. Each queued item is in a line: one prediction's items with one shape key and
 * similar lengths.
 */

import { Fifo } from "../../base/collections/fifo.ts";
import { type InRing, Ring } from "../../base/collections/ring.ts";
import { type Lengths, placeOf, type Steps, stepsOf } from "./length-steps.ts";
import type { SizedTensor } from "./padded-bytes.ts";

export interface Queued extends Lengths {
  /** Object that all items of one prediction share. */
  readonly lane: object;
  /** Only items with the same key share a batch. */
  readonly key: string;
  /**
   * Tensors whose padded bytes count for the limit of a batch, if the item has padded dimensions. Undefined for a model
   * with `step`.
   */
  readonly tensors?: readonly SizedTensor[];
  /** When the item became ready, in milliseconds of the batcher's clock. */
  readonly readyAtMs: number;
  /**
   * The item was running when an engine process died, and may be the cause. Such an item runs alone in its batch,
   * before other items, while all other runners are idle.
   */
  readonly isAlone?: boolean;
}

/** One prediction's items with one shape key and similar lengths, in order. */
export class Line<T extends Queued> implements InRing<Line<T>> {
  readonly lane: Lane<T>;
  readonly bucket: Bucket<T>;
  readonly items = new Fifo<T>();
  ring: InRing<Line<T>>["ring"] = undefined;
  before: Line<T> | undefined = undefined;
  after: Line<T> | undefined = undefined;

  constructor(lane: Lane<T>, bucket: Bucket<T>) {
    this.lane = lane;
    this.bucket = bucket;
  }
}

/** All lines of one prediction: one for each shape key and range of lengths. */
export class Lane<T extends Queued> implements InRing<Lane<T>> {
  readonly key: object;
  readonly lines: Line<T>[] = [];
  ring: InRing<Lane<T>>["ring"] = undefined;
  before: Lane<T> | undefined = undefined;
  after: Lane<T> | undefined = undefined;

  constructor(key: object) {
    this.key = key;
  }

  inOrder(): readonly Line<T>[] {
    if (this.lines.length < 2) return this.lines;
    return this.lines.toSorted(
      (a, b) => (a.items.first?.readyAtMs ?? Infinity) - (b.items.first?.readyAtMs ?? Infinity),
    );
  }
}

/**
 * The lines of all predictions for one shape key and one range of lengths, in a ring. The first line is served next.
 */
export class Bucket<T extends Queued> {
  readonly group: Group<T>;
  /** Range of lengths of the items: a step on a logarithmic scale for each padded dimension. */
  readonly steps: Steps;
  readonly lines = new Ring<Line<T>>();
  length = 0;

  constructor(group: Group<T>, steps: Steps) {
    this.group = group;
    this.steps = steps;
  }
}

/** All items with one shape key, in buckets of similar lengths. */
export class Group<T extends Queued> {
  readonly key: string;
  readonly buckets = new Map<string | number, Bucket<T>>();
  length = 0;

  constructor(key: string) {
    this.key = key;
  }

  oldestReadyAtMs(): number {
    let oldest = Infinity;
    for (const { lines } of this.buckets.values()) {
      for (const { items } of lines) oldest = Math.min(oldest, items.first?.readyAtMs ?? Infinity);
    }
    return oldest;
  }
}

/**
 * The queued predictions in the order of their turns. Adding or taking an item costs the same with any number of items.
 */
export class Lanes<T extends Queued> {
  readonly #byKey = new WeakMap<object, Lane<T>>();
  /** Predictions without an item in the last batch. They go first. */
  readonly #unserved = new Ring<Lane<T>>();
  /** Predictions with an item in the last batch. They go after all others. */
  readonly #served = new Ring<Lane<T>>();
  readonly groups = new Map<string, Group<T>>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(item: T): void {
    const group = this.#group(item.key);
    const bucket = this.#bucket(group, stepsOf(item));
    this.#line(this.#lane(item.lane), bucket).items.push(item);
    bucket.length += 1;
    group.length += 1;
    this.#length += 1;
  }

  *inTurn(): Generator<Lane<T>> {
    yield* this.#unserved;
    yield* this.#served;
  }

  /** Begins a batch: the predictions of the last batch go to the end of the order. */
  beginBatch(): void {
    for (let lane = this.#served.first; lane !== undefined; lane = this.#served.first) {
      this.#served.delete(lane);
      this.#unserved.add(lane);
    }
  }

  remove(lane: object): T[] {
    const known = this.#byKey.get(lane);
    if (known === undefined) return [];
    this.#byKey.delete(lane);
    this.#unserved.delete(known);
    this.#served.delete(known);
    return known.lines.flatMap((line) => {
      this.#leave(line);
      const items = line.items.rest();
      this.#forget(line.bucket, items.length);
      return items;
    });
  }

  /**
   * Takes the first item of a line. If the line has more items, it goes to the end of its bucket. If the prediction has
   * more items, it goes after all others.
   */
  takeFirst(line: Line<T>): T {
    const { lane, bucket, items } = line;
    const item = items.shift();
    if (item === undefined) throw new RangeError("an empty line has no first item");
    if (items.length > 0) {
      bucket.lines.moveToEnd(line);
    } else {
      this.#leave(line);
      lane.lines.splice(lane.lines.indexOf(line), 1);
    }
    this.#unserved.delete(lane);
    if (lane.lines.length > 0) {
      this.#served.add(lane);
    } else {
      this.#served.delete(lane);
      this.#byKey.delete(lane.key);
    }
    this.#forget(bucket);
    return item;
  }

  #group(key: string): Group<T> {
    const known = this.groups.get(key);
    if (known !== undefined) return known;
    const group = new Group<T>(key);
    this.groups.set(key, group);
    return group;
  }

  #bucket(group: Group<T>, steps: Steps): Bucket<T> {
    const place = placeOf(steps);
    const known = group.buckets.get(place);
    if (known !== undefined) return known;
    const bucket = new Bucket(group, steps);
    group.buckets.set(place, bucket);
    return bucket;
  }

  #lane(key: object): Lane<T> {
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const lane = new Lane<T>(key);
    this.#byKey.set(key, lane);
    this.#unserved.add(lane);
    return lane;
  }

  #line(lane: Lane<T>, bucket: Bucket<T>): Line<T> {
    const known = lane.lines.find((line) => line.bucket === bucket);
    if (known !== undefined) return known;
    const line = new Line(lane, bucket);
    lane.lines.push(line);
    bucket.lines.add(line);
    return line;
  }

  #leave(line: Line<T>): void {
    const { group, lines, steps } = line.bucket;
    lines.delete(line);
    if (lines.size === 0) group.buckets.delete(placeOf(steps));
  }

  #forget(bucket: Bucket<T>, count = 1): void {
    const { group } = bucket;
    this.#length -= count;
    bucket.length -= count;
    group.length -= count;
    if (group.length === 0) this.groups.delete(group.key);
  }
}
