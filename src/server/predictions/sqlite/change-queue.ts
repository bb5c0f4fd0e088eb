/**
 * Changes that wait to be written to the database. Urgent changes belong to stored requests. Deferred changes are
 * outcomes of other requests, which clients already have.
 */
import { Fifo } from "../../../base/collections/fifo.ts";
import { OpenMap } from "../../../base/collections/open-map.ts";
import { hashOf } from "../ids.ts";
import type { EndedRecord } from "../record.ts";
import type { RetentionLimits, StoredRequest } from "../store.ts";
import { fitsPack, packLimit } from "./row-text.ts";
import { MAX_INLINE_LENGTH } from "./value-files.ts";

interface Numbered {
  /** Position in the order of changes. Two merged changes of a prediction get the earlier position. */
  readonly number: number;
  readonly id: string;
}

/** Ends the wait for the write of a request: `resolve` after the write, `reject` after its failure. */
export interface Waiting {
  resolve(): void;
  reject(error: unknown): void;
}

export interface CreateChange extends Numbered {
  readonly op: "create";
  readonly request: StoredRequest;
  /** Name of the file with the body, if the body is large. */
  readonly file: string | undefined;
  /** When the change was queued, in milliseconds of `performance.now()`. */
  readonly atMs: number;
  readonly begunAtMs: number | undefined;
  readonly waiting: Waiting;
}

export interface BegunChange extends Numbered {
  readonly op: "begun";
  /** Start in milliseconds since 1970; undefined for a request that stops because the process exits. */
  readonly begunAtMs: number | undefined;
}

export interface EndChange extends Numbered {
  readonly op: "end";
  readonly record: EndedRecord;
  /** Bytes that count against the limits of retention. */
  readonly bytes: number;
  /** Name of the file with the outcome, if the outcome is large and the file is written. */
  readonly file: string | undefined;
  /** When the change was queued, in milliseconds of `performance.now()`. */
  readonly atMs: number;
  /** Whether the request was given to the database, which must then remove it. */
  readonly isStored: boolean;
  /** The caller that waits for the write of the request, if this outcome has replaced that write in the queue. */
  readonly waiting: Waiting | undefined;
}

/** Removes an unfinished prediction whose outcome exceeds the limits of retention and is never written. */
export interface DropChange extends Numbered {
  readonly op: "drop";
}

export type Change = CreateChange | BegunChange | EndChange | DropChange;

/** Maximum urgent changes in a transaction. More would delay the requests among them. */
const MAX_URGENT = 2000;
const MAX_DEFERRED = 500;
/** Above this number of bytes, all deferred outcomes are written without delay. */
const MAX_DEFERRED_BYTES = 16 * 1024 * 1024;

export interface Batch {
  readonly changes: Change[];
  /** Small outcomes, which are written as one row. */
  readonly packed: EndChange[];
  /** Large outcomes. The file of each must be written before its row. */
  readonly large: EndChange[];
}

export class ChangeQueue {
  readonly #limits: RetentionLimits;
  readonly #packLimit: number;
  #urgent = new Map<string, Change>();
  readonly #deferred = new Fifo<EndChange>();
  readonly #deferredById = new OpenMap<string, EndChange>(hashOf);
  #deferredBytes = 0;
  /** Number of deferred outcomes, oldest first, that the next batches write. */
  #due = 0;
  #nextNumber = 0;

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
    this.#packLimit = packLimit(limits);
  }

  get nextNumber(): number {
    return this.#nextNumber;
  }

  get hasDue(): boolean {
    return this.#urgent.size > 0 || this.#due > 0;
  }

  get deferredCount(): number {
    return this.#deferred.length;
  }

  create(change: Pick<CreateChange, "request" | "file" | "begunAtMs" | "waiting">): void {
    const { id } = change.request;
    this.#add({ op: "create", number: this.#nextNumber++, id, atMs: performance.now(), ...change });
  }

  begun(id: string, begunAtMs: number | undefined): void {
    this.#add({ op: "begun", number: this.#nextNumber++, id, begunAtMs });
  }

  drop(id: string): void {
    this.#add({ op: "drop", number: this.#nextNumber++, id });
  }

  end(record: EndedRecord, bytes: number, isStored: boolean): void {
    const change: EndChange = {
      op: "end",
      number: this.#nextNumber++,
      id: record.id,
      record,
      bytes,
      file: undefined,
      atMs: performance.now(),
      isStored,
      waiting: undefined,
    };
    if (isStored) {
      this.#add(change);
      return;
    }
    this.#deferred.push(change);
    this.#deferredById.set(record.id, change);
    this.#deferredBytes += bytes;
    this.#evictDeferred(change.atMs);
    if (this.#deferredBytes > MAX_DEFERRED_BYTES) this.hasten();
  }

  /** Removes and returns the next changes, with at most `maxFiles` large outcomes. */
  take(maxFiles: number): Batch {
    const batch: Batch = { changes: [], packed: [], large: [] };
    for (const change of this.#urgent.values()) {
      if (batch.changes.length === MAX_URGENT) break;
      if (needsFile(change) && batch.large.length === maxFiles) continue;
      this.#urgent.delete(change.id);
      addTo(batch, change);
    }
    this.#renew();
    this.#evictDeferred(performance.now());
    for (let count = 0; count < MAX_DEFERRED && this.#due > 0; count++) {
      const next = this.#deferred.first;
      if (next === undefined || (needsFile(next) && batch.large.length === maxFiles)) break;
      this.#shiftDeferred();
      if (batch.packed.length < this.#packLimit && fitsPack(next)) batch.packed.push(next);
      else addTo(batch, next);
    }
    return batch;
  }

  takeCreations(): Batch {
    const creations = this.#urgent.values().filter(({ op }) => op === "create");
    const changes = creations.take(MAX_URGENT).toArray();
    for (const { id } of changes) this.#urgent.delete(id);
    this.#renew();
    return { changes, packed: [], large: [] };
  }

  /** Queues the row of a large outcome whose file is written. */
  addFiled(change: EndChange): void {
    this.#add(change);
  }

  /** Queues changes again whose write has failed, without outcomes beyond the limits of retention. */
  putBack(changes: readonly Change[]): void {
    const later = this.#urgent;
    this.#urgent = new Map(changes.map((change) => [change.id, change]));
    for (const change of later.values()) this.#add(change);
    this.#dropUrgent();
  }

  /** Lets the next batches write the oldest `count` deferred outcomes; by default all. */
  hasten(count = Infinity): void {
    this.#due = Math.min(this.#deferred.length, Math.max(this.#due, count));
  }

  find(id: string): EndedRecord | undefined {
    const urgent = this.#urgent.get(id);
    return urgent?.op === "end" ? urgent.record : this.#deferredById.get(id)?.record;
  }

  hasEnd(id: string): boolean {
    return this.#urgent.get(id)?.op === "end";
  }

  oldestNumber(): number {
    const deferred = this.#deferred.first?.number ?? Infinity;
    return this.#urgent.values().reduce((oldest, { number }) => Math.min(oldest, number), deferred);
  }

  get unwritten(): { count: number; bytes: number } {
    const total = { count: this.#deferred.length, bytes: this.#deferredBytes };
    for (const change of this.#urgent.values()) {
      if (change.op !== "end") continue;
      total.count += 1;
      total.bytes += change.bytes;
    }
    return total;
  }

  /** Replaces the empty Map, which would keep the memory of former entries. (OpenMap has no order.) */
  #renew(): void {
    if (this.#urgent.size === 0) this.#urgent = new Map();
  }

  #add(change: Change): void {
    this.#urgent.set(change.id, merged(this.#urgent.get(change.id), change));
  }

  /** Drops deferred outcomes that the database would evict right after their write. */
  #evictDeferred(nowMs: number): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    for (let oldest = this.#deferred.first; oldest !== undefined; oldest = this.#deferred.first) {
      const { length } = this.#deferred;
      const isOver = length > maxCount || (this.#deferredBytes > maxBytes && length > 1);
      if (!isOver && nowMs - oldest.atMs <= maxAgeMs) return;
      this.#shiftDeferred();
    }
  }

  #shiftDeferred(): void {
    const end = this.#deferred.shift();
    if (end === undefined) return;
    this.#deferredBytes -= end.bytes;
    this.#due = Math.max(0, this.#due - 1);
    // A later outcome with the same id must stay in the map.
    if (this.#deferredById.get(end.id) === end) this.#deferredById.delete(end.id);
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
    for (const { id, number, isStored, waiting, ...end } of ends) {
      const isOver = count > maxCount || (bytes > maxBytes && count > 1) || nowMs - end.atMs > maxAgeMs;
      if (!isOver) continue;
      waiting?.resolve();
      if (isStored) this.#urgent.set(id, { op: "drop", number, id });
      else this.#urgent.delete(id);
      count -= 1;
      bytes -= end.bytes;
    }
  }
}

/** Merges two queued changes of a prediction into one. An outcome is never replaced. */
function merged(earlier: Change | undefined, later: Change): Change {
  if (earlier === undefined) return later;
  const { number } = earlier;
  switch (earlier.op) {
    case "end":
      return earlier;
    case "drop":
      // The client sent the request again after its outcome had been dropped.
      return later.op === "create" ? { ...later, number } : earlier;
    case "begun":
      return { ...later, number };
    case "create":
      if (later.op === "begun") return { ...earlier, begunAtMs: later.begunAtMs };
      return later.op === "end" ? { ...later, number, waiting: earlier.waiting } : earlier;
  }
}

function needsFile(change: Change): boolean {
  if (change.op !== "end" || change.file !== undefined) return false;
  return change.record.outcome.members.length + change.record.logs.length > MAX_INLINE_LENGTH;
}

function addTo(batch: Batch, change: Change): void {
  if (change.op === "end" && needsFile(change)) batch.large.push(change);
  else batch.changes.push(change);
}
