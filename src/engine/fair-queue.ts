/** Items that wait, taken in turn over the lanes they wait in, in order within a lane, and alike within a batch. */

import { Ring } from "./ring.ts";

/** What the queue needs to know of an item. */
export interface Queued {
  /** Whose turn it is; one for each prediction. */
  readonly lane: object;
  /** Only items with the same key share a batch. */
  readonly key: string;
  readonly bytes: number;
  /** When the item became ready, in milliseconds of the batcher's clock. */
  readonly readyAtMs: number;
}

/** The items of one lane with one key, in order. */
class Line<T extends Queued> {
  readonly lane: Lane<T>;
  readonly group: Group<T>;
  #items: T[] = [];
  #head = 0;

  constructor(lane: Lane<T>, group: Group<T>) {
    this.lane = lane;
    this.group = group;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head++];
    // Dropping the used half now and then keeps a shift cheap however long the line is.
    if (this.#head > 32 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  rest(): T[] {
    return this.#items.slice(this.#head);
  }
}

/** One prediction's lines; nearly always a single one. */
class Lane<T extends Queued> {
  readonly key: object;
  readonly lines: Line<T>[] = [];

  constructor(key: object) {
    this.key = key;
  }

  line(group: Group<T>): Line<T> | undefined {
    return this.lines.find((line) => line.group === group);
  }

  /** The lines, beginning with the one whose first item has been ready the longest. */
  inOrder(): readonly Line<T>[] {
    if (this.lines.length < 2) return this.lines;
    return this.lines.toSorted((a, b) => (a.first?.readyAtMs ?? Infinity) - (b.first?.readyAtMs ?? Infinity));
  }
}

/** All lines with one key, in turn: the first is the next. */
export class Group<T extends Queued> {
  readonly key: string;
  readonly lines = new Ring<Line<T>>();
  length = 0;

  constructor(key: string) {
    this.key = key;
  }

  /** When the item that has been ready the longest became so. */
  oldestReadyAtMs(): number {
    let oldest = Infinity;
    for (const { first } of this.lines) if (first !== undefined && first.readyAtMs < oldest) oldest = first.readyAtMs;
    return oldest;
  }
}

/** Holds what waits. Adding and taking an item cost the same however many wait. */
export class FairQueue<T extends Queued> {
  readonly #lanes = new Map<object, Lane<T>>();
  /** A lane that was served goes to the end. */
  readonly #turns = new Ring<Lane<T>>();
  readonly #groups = new Map<string, Group<T>>();
  #length = 0;
  #bytes = 0;

  get length(): number {
    return this.#length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(item: T): void {
    const group = this.#group(item.key);
    const line = this.#line(this.#lane(item.lane), group);
    line.push(item);
    group.length += 1;
    this.#length += 1;
    this.#bytes += item.bytes;
  }

  /** The groups that wait, in the order of the lanes' turns, and within a lane of how long its first item has been ready. */
  *groups(): Generator<Group<T>> {
    const seen = new Set<Group<T>>();
    for (const lane of this.#turns) {
      for (const { group } of lane.inOrder()) {
        if (seen.has(group)) continue;
        yield group;
        seen.add(group);
        if (seen.size === this.#groups.size) return;
      }
    }
  }

  /** Takes up to `max` items of `group`, one of each lane in turn. */
  take(group: Group<T>, max: number): T[] {
    const batch: T[] = [];
    // The lane whose turn it is goes first, even where its line is not the group's next.
    let line = this.#turns.first?.line(group) ?? group.lines.first;
    while (line !== undefined && batch.length < max) {
      const item = line.shift();
      if (item === undefined) break;
      batch.push(item);
      this.#forget(item, group);
      this.#endTurn(line);
      line = group.lines.first;
    }
    return batch;
  }

  /** Takes every waiting item of a lane away. */
  remove(lane: object): T[] {
    const known = this.#lanes.get(lane);
    if (known === undefined) return [];
    this.#lanes.delete(lane);
    this.#turns.delete(known);
    return known.lines.flatMap((line) => {
      line.group.lines.delete(line);
      const items = line.rest();
      for (const item of items) this.#forget(item, line.group);
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

  #lane(key: object): Lane<T> {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane = new Lane<T>(key);
    this.#lanes.set(key, lane);
    this.#turns.add(lane);
    return lane;
  }

  #line(lane: Lane<T>, group: Group<T>): Line<T> {
    const known = lane.line(group);
    if (known !== undefined) return known;
    const line = new Line(lane, group);
    lane.lines.push(line);
    group.lines.add(line);
    return line;
  }

  #endTurn(line: Line<T>): void {
    const { lane, group } = line;
    if (line.length > 0) {
      group.lines.moveToEnd(line);
    } else {
      group.lines.delete(line);
      lane.lines.splice(lane.lines.indexOf(line), 1);
    }
    if (lane.lines.length > 0) {
      this.#turns.moveToEnd(lane);
    } else {
      this.#turns.delete(lane);
      this.#lanes.delete(lane.key);
    }
  }

  #forget(item: T, group: Group<T>): void {
    this.#length -= 1;
    this.#bytes -= item.bytes;
    group.length -= 1;
    if (group.length === 0) this.#groups.delete(group.key);
  }
}
