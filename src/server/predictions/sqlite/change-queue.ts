/** The changes that are still to be written: those that something waits for, and ends of predictions that were never kept as a request. */
import { Fifo } from "../../../base/collections/fifo.ts";
import { OpenMap } from "../../../base/collections/open-map.ts";
import { hashOf } from "../ids.ts";
import type { EndedRecord } from "../record.ts";
import type { KeptRequest, RetentionLimits } from "../store.ts";
import { type BegunChange, type Change, type CreateChange, type EndChange, merged, type Waiting } from "./change.ts";
import { MAX_INLINE_LENGTH } from "./kept-files.ts";
import { fitsPack, packLimit } from "./told-pack.ts";

/** Changes of each sort in one transaction: a creation waits for no more than that. */
const MAX_URGENT = 2000;
const MAX_LAZY = 500;
/** Lazy ends beyond these bytes are written before their time. */
const MAX_LAZY_BYTES = 16 * 1024 * 1024;

export interface Batch {
  readonly changes: Change[];
  /** To be written as one pack. */
  readonly told: EndChange[];
  /** To be written to files first. */
  readonly large: EndChange[];
}

export class ChangeQueue {
  readonly #limits: RetentionLimits;
  readonly #packLimit: number;
  #urgent = new Map<string, Change>();
  readonly #lazy = new Fifo<EndChange>();
  #lazyBytes = 0;
  /** The oldest lazy ends by id: those that a search has come to. */
  readonly #indexed = new OpenMap<string, EndChange>(hashOf);
  #indexedCount = 0;
  /** Lazy ends whose time has come. */
  #due = 0;
  #nextNumber = 0;

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
    this.#packLimit = packLimit(limits);
  }

  /** The number that the next change gets. */
  get nextNumber(): number {
    return this.#nextNumber;
  }

  get hasDue(): boolean {
    return this.#urgent.size > 0 || this.#due > 0;
  }

  get lazyCount(): number {
    return this.#lazy.length;
  }

  create(change: {
    request: KeptRequest;
    file: string | undefined;
    begunAtMs: number | undefined;
    waiting: Waiting;
  }): void {
    const { id } = change.request;
    const created: CreateChange = {
      op: "create",
      number: this.#nextNumber++,
      id,
      toldMs: performance.now(),
      ...change,
    };
    this.#add(created);
  }

  begun(id: string, begunAtMs: number | undefined): void {
    const begun: BegunChange = { op: "begun", number: this.#nextNumber++, id, begunAtMs };
    this.#add(begun);
  }

  /** An unfinished prediction goes without an outcome. */
  drop(id: string): void {
    this.#add({ op: "drop", number: this.#nextNumber++, id });
  }

  /** @param isCreated whether a request of it may be in the database; else there is no hurry */
  end(record: EndedRecord, bytes: number, isCreated: boolean): void {
    const toldMs = performance.now();
    const change: EndChange = {
      op: "end",
      number: this.#nextNumber++,
      id: record.id,
      record,
      bytes,
      file: undefined,
      toldMs,
      isCreated,
      waiting: undefined,
    };
    if (isCreated) {
      this.#add(change);
      return;
    }
    this.#lazy.push(change);
    this.#lazyBytes += bytes;
    this.#dropLazy(toldMs);
    if (this.#lazyBytes > MAX_LAZY_BYTES) this.hasten();
  }

  /** Takes the next changes; no more than `files` of them need files first. */
  take(files: number): Batch {
    const batch: Batch = { changes: [], told: [], large: [] };
    for (const change of this.#urgent.values()) {
      if (batch.changes.length === MAX_URGENT) break;
      if (needsFile(change) && batch.large.length === files) continue;
      this.#urgent.delete(change.id);
      sort(change, batch);
    }
    this.#renew();
    this.#dropLazy(performance.now());
    for (let taken = 0; taken < MAX_LAZY && this.#due > 0; taken++) {
      const next = this.#lazy.first;
      if (next === undefined || (needsFile(next) && batch.large.length === files)) break;
      this.#shiftLazy();
      if (batch.told.length < this.#packLimit && fitsPack(next)) batch.told.push(next);
      else sort(next, batch);
    }
    return batch;
  }

  /** Takes creations alone. */
  takeCreations(): Batch {
    const changes = this.#urgent
      .values()
      .filter(({ op }) => op === "create")
      .take(MAX_URGENT)
      .toArray();
    for (const { id } of changes) this.#urgent.delete(id);
    this.#renew();
    return { changes, told: [], large: [] };
  }

  /** The outcome of a change lies in a file now. */
  addFiled(change: EndChange): void {
    this.#add(change);
  }

  /** Takes back what could not be written, as far as retention allows. */
  putBack(changes: readonly Change[]): void {
    const later = this.#urgent;
    this.#urgent = new Map(changes.map((change) => [change.id, change]));
    for (const change of later.values()) this.#add(change);
    this.#dropUrgent();
  }

  /** The time of so many lazy ends has come, the oldest first; by default of all. */
  hasten(count = Infinity): void {
    this.#due = Math.min(this.#lazy.length, Math.max(this.#due, count));
  }

  /** @param upToMs lazy ends that came later are not looked at, by the monotonic clock */
  find(id: string, upToMs: number): EndedRecord | undefined {
    const urgent = this.#urgent.get(id);
    if (urgent?.op === "end") return urgent.record;
    this.#indexUpTo(upToMs);
    return this.#indexed.get(id)?.record;
  }

  /** Whether the outcome of a prediction that was kept as a request waits to be written. */
  hasEnd(id: string): boolean {
    return this.#urgent.get(id)?.op === "end";
  }

  /** Of all that are not written. */
  oldestNumber(): number {
    const lazy = this.#lazy.first?.number ?? Infinity;
    return this.#urgent.values().reduce((oldest, { number }) => Math.min(oldest, number), lazy);
  }

  /** Outcomes that are not written, and their bytes. */
  get unwritten(): { count: number; bytes: number } {
    const total = { count: this.#lazy.length, bytes: this.#lazyBytes };
    for (const change of this.#urgent.values()) {
      if (change.op !== "end") continue;
      total.count += 1;
      total.bytes += change.bytes;
    }
    return total;
  }

  /** In order as no OpenMap is. One that stays would keep alive what was in it (open-map.ts). */
  #renew(): void {
    if (this.#urgent.size === 0) this.#urgent = new Map();
  }

  #add(change: Change): void {
    this.#urgent.set(change.id, merged(this.#urgent.get(change.id), change));
  }

  /** Those that would be removed as soon as they were written are not. */
  #dropLazy(nowMs: number): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    for (let oldest = this.#lazy.first; oldest !== undefined; oldest = this.#lazy.first) {
      const isOver = this.#lazy.length > maxCount || (this.#lazyBytes > maxBytes && this.#lazy.length > 1);
      if (!isOver && nowMs - oldest.toldMs <= maxAgeMs) return;
      this.#shiftLazy();
    }
  }

  #shiftLazy(): void {
    const end = this.#lazy.shift();
    if (end === undefined) return;
    this.#lazyBytes -= end.bytes;
    this.#due = Math.max(0, this.#due - 1);
    if (this.#indexedCount === 0) return;
    this.#indexedCount -= 1;
    // A later one may have taken its id.
    if (this.#indexed.get(end.id) === end) this.#indexed.delete(end.id);
  }

  /** Each lazy end once: most are written before anybody searches for one, and cost nothing. */
  #indexUpTo(upToMs: number): void {
    for (let end = this.#lazy.at(this.#indexedCount); end !== undefined; end = this.#lazy.at(this.#indexedCount)) {
      if (end.toldMs > upToMs) return;
      this.#indexed.set(end.id, end);
      this.#indexedCount += 1;
    }
  }

  #dropUrgent(): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    const ends = this.#urgent
      .values()
      .filter((change) => change.op === "end")
      .toArray();
    let { length: count } = ends;
    let bytes = ends.reduce((sum, end) => sum + end.bytes, 0);
    const nowMs = performance.now();
    for (const { id, number, isCreated, waiting, ...end } of ends) {
      const isOver = count > maxCount || (bytes > maxBytes && count > 1) || nowMs - end.toldMs > maxAgeMs;
      if (!isOver) continue;
      waiting?.resolve();
      if (isCreated) this.#urgent.set(id, { op: "drop", number, id });
      else this.#urgent.delete(id);
      count -= 1;
      bytes -= end.bytes;
    }
  }
}

function needsFile(change: Change): boolean {
  if (change.op !== "end" || change.file !== undefined) return false;
  return change.record.outcome.members.length + change.record.logs.length > MAX_INLINE_LENGTH;
}

function sort(change: Change, batch: Batch): void {
  if (change.op === "end" && needsFile(change)) batch.large.push(change);
  else batch.changes.push(change);
}
