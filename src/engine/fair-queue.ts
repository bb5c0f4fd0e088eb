/** The queue of ready items: lanes take turns, items of a lane keep their order, and items of a batch have similar lengths. */

import { Fifo } from "../base/collections/fifo.ts";
import { type InRing, Ring } from "../base/collections/ring.ts";
import { BatchOverheads } from "./batch-overheads.ts";
import { elementsOf, type Lengths, near, placeOf, type Steps, stepsOf } from "./length-steps.ts";
import { PaddedBytes, type SizedTensor } from "./padded-bytes.ts";

/** Facts of an item that the queue uses. */
export interface Queued extends Lengths {
  /** The prediction of the item. */
  readonly lane: object;
  /** Only items with the same key share a batch. */
  readonly key: string;
  /** Where dimensions are padded, these bound the bytes of its batch. */
  readonly tensors?: readonly SizedTensor[];
  /** When the item became ready, in milliseconds of the batcher's clock. */
  readonly readyAtMs: number;
  /**
   * The item was running when an engine process died, and may be the cause. Suspects run alone in their batch, before other items, while all other
   * runners are idle.
   */
  readonly isAlone?: boolean;
  /** The lane is deprioritised. */
  readonly isDeprioritised?: boolean | undefined;
}

/** The items of one lane in one bucket, in order. */
class Line<T extends Queued> implements InRing<Line<T>> {
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

/** The lines of one prediction: nearly always a single line, or a line for each length. */
class Lane<T extends Queued> implements InRing<Lane<T>> {
  readonly key: object;
  /** Whether a batch took some of its items and left others. */
  wasServed = false;
  readonly lines: Line<T>[] = [];
  ring: InRing<Lane<T>>["ring"] = undefined;
  before: Lane<T> | undefined = undefined;
  after: Lane<T> | undefined = undefined;

  constructor(key: object) {
    this.key = key;
  }

  /** The lines, oldest first item first. */
  inOrder(): readonly Line<T>[] {
    if (this.lines.length < 2) return this.lines;
    return this.lines.toSorted(
      (a, b) => (a.items.first?.readyAtMs ?? Infinity) - (b.items.first?.readyAtMs ?? Infinity),
    );
  }
}

/** All lines with one key and about one length, in turn: the first is the next. */
class Bucket<T extends Queued> {
  readonly group: Group<T>;
  /** Position by length among the buckets of the group. */
  readonly steps: Steps;
  readonly lines = new Ring<Line<T>>();
  length = 0;

  constructor(group: Group<T>, steps: Steps) {
    this.group = group;
    this.steps = steps;
  }
}

/** Default limit for the padded inputs of a batch. */
export const MAX_PADDED_BYTES = 256 * 2 ** 20;

/** A function that adds the first item of a line to a batch, if it fits. The first item of a batch always fits. */
function roomOf(maxBytes: number): (line: Line<Queued>) => boolean {
  const padded = new PaddedBytes();
  return ({ items: { first } }) =>
    first?.tensors === undefined || !first.padded?.size || padded.join(first.tensors, maxBytes);
}

/** All items with one key, by length. */
export class Group<T extends Queued> {
  readonly key: string;
  readonly buckets = new Map<string | number, Bucket<T>>();
  length = 0;

  constructor(key: string) {
    this.key = key;
  }

  /** When the oldest item became ready. */
  oldestReadyAtMs(): number {
    let oldest = Infinity;
    for (const { lines } of this.buckets.values()) {
      for (const { items } of lines) oldest = Math.min(oldest, items.first?.readyAtMs ?? Infinity);
    }
    return oldest;
  }
}

/**
 * The ready items. Adding and taking an item cost the same at any length of the queue.
 *
 * Where dimensions are padded, items of near lengths go together: length bucketing, the common practice for sequences
 * (`bucket_by_sequence_length` of tf.data, length-grouped samplers for PyTorch). The oldest item of the next lane leads the batch, whatever its
 * length, so no item waits for near lengths. The items nearest in length follow; lanes with equally near items take turns. An item does not
 * join if the batch would then compute fewer useful elements a second, as measured batch times of this key show. The consequences:
 *
 * - In each padded dimension, the longest item of a batch is less than √2 times the shortest plus 7. Padding stays below 0.3 of long items.
 * - The padded batch has at most `maxBytes`. A single item may have more.
 * - A batch may have fewer than `max` items while more items of its group wait. Another batch follows.
 * - A new lane goes before the lanes of the last batch.
 */
export class FairQueue<T extends Queued> {
  readonly #lanes = new WeakMap<object, Lane<T>>();
  readonly #turns = new Ring<Lane<T>>();
  /** Lanes of the last batch. Their turn is after all other lanes, and after lanes that arrive before the next batch. */
  readonly #served = new Ring<Lane<T>>();
  readonly #groups = new Map<string, Group<T>>();
  readonly #overheads = new BatchOverheads();
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

  /** The groups in the order of the lanes, and within a lane by the age of their first item. */
  *groups(): Generator<Group<T>> {
    const seen = new Set<Group<T>>();
    for (const lane of this.#inTurn()) {
      for (const { bucket } of lane.inOrder()) {
        const { group } = bucket;
        if (seen.has(group)) continue;
        yield group;
        seen.add(group);
        if (seen.size === this.#groups.size) return;
      }
    }
  }

  /**
   * Takes up to `max` items of `group`: the oldest item of the next lane, then the items nearest in length, from the lanes in turn.
   * @param maxBytes limit for the padded inputs; a single item may have more
   */
  take(group: Group<T>, max: number, maxBytes = MAX_PADDED_BYTES): T[] {
    const leader = this.#leader(group);
    if (leader === undefined) return [];
    for (let lane = this.#served.first; lane !== undefined; lane = this.#served.first) {
      this.#served.delete(lane);
      this.#turns.add(lane);
    }
    const hasRoomFor = roomOf(maxBytes);
    hasRoomFor(leader);
    const { steps } = leader.bucket;
    const batch = [this.#takeFirst(leader)];
    let useful = elementsOf(steps);
    const overhead = this.#overheads.of(group.key);
    const joins = (bucket: Bucket<T>, before: Steps, after: Steps) => {
      if (overhead === Infinity) return true;
      const count = Math.min(bucket.length, max - batch.length);
      const more = (useful + count * elementsOf(bucket.steps)) / useful;
      const longer =
        (overhead + (batch.length + count) * elementsOf(after)) / (overhead + batch.length * elementsOf(before));
      return more > longer;
    };
    for (const { lines, steps } of near(leader.bucket.steps, group.buckets, joins)) {
      for (let line = lines.first; line !== undefined; line = lines.first) {
        if (batch.length >= max || !hasRoomFor(line)) return batch;
        batch.push(this.#takeFirst(line));
        useful += elementsOf(steps);
      }
    }
    return batch;
  }

  /**
   * Takes up to `max` items that share a batch from new lanes, whole lanes only.
   * @param isDue whether `count` items, of which `first` is given, need not wait for more
   */
  takeSmall(max: number, isDue: (first: T, count: number) => boolean, maxBytes = MAX_PADDED_BYTES): T[] {
    const batch: T[] = [];
    const hasRoomFor = roomOf(maxBytes);
    let bucket: Bucket<T> | undefined;
    for (let lane = this.#turns.first, next = lane; lane !== undefined; lane = next) {
      next = lane.after;
      const [line, another] = lane.lines;
      if (lane.wasServed || line === undefined || another !== undefined) continue;
      const { first, length } = line.items;
      if (line.bucket !== (bucket ?? line.bucket) || batch.length + length > max) continue;
      if (first === undefined || !isDue(first, length)) continue;
      bucket = line.bucket;
      while (lane.lines.length > 0 && hasRoomFor(line)) batch.push(this.#takeFirst(line));
    }
    return batch;
  }

  /** A batch took `ms`, which tells what padding costs. */
  ran(batch: readonly T[], ms: number): void {
    this.#overheads.observe(batch[0]?.key ?? "", batch, ms);
  }

  /** Takes every waiting item of a lane away. */
  remove(lane: object): T[] {
    const known = this.#lanes.get(lane);
    if (known === undefined) return [];
    this.#lanes.delete(lane);
    this.#turns.delete(known);
    this.#served.delete(known);
    return known.lines.flatMap((line) => {
      this.#leave(line);
      const items = line.items.rest();
      this.#forget(line.bucket, items.length);
      return items;
    });
  }

  #group(key: string): Group<T> {
    const known = this.#groups.get(key);
    if (known !== undefined) return known;
    const group = new Group<T>(key);
    this.#groups.set(key, group);
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
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane = new Lane<T>(key);
    this.#lanes.set(key, lane);
    this.#turns.add(lane);
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

  *#inTurn(): Generator<Lane<T>> {
    yield* this.#turns;
    yield* this.#served;
  }

  /** The line of `group` whose first item leads the next batch. */
  #leader(group: Group<T>): Line<T> | undefined {
    for (const lane of this.#inTurn()) {
      const line = lane.inOrder().find(({ bucket }) => bucket.group === group);
      if (line !== undefined) return line;
    }
    return undefined;
  }

  /** Takes the first item of a line, and ends the turn of the line and of its lane. */
  #takeFirst(line: Line<T>): T {
    const { lane, bucket, items } = line;
    const item = items.shift();
    if (item === undefined) throw new RangeError("an empty line has no first item");
    if (items.length > 0) {
      bucket.lines.moveToEnd(line);
    } else {
      this.#leave(line);
      lane.lines.splice(lane.lines.indexOf(line), 1);
    }
    this.#turns.delete(lane);
    if (lane.lines.length > 0) {
      this.#served.add(lane);
      lane.wasServed = true;
    } else {
      this.#served.delete(lane);
      this.#lanes.delete(lane.key);
    }
    this.#forget(bucket);
    return item;
  }

  /** Takes a line out of its bucket, and an empty bucket out of its group. */
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
    if (group.length === 0) this.#groups.delete(group.key);
  }
}
