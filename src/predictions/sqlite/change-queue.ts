/** Changes of stored predictions that wait to be written to the database. */
import type { EndedRecord } from "../record.ts";
import type { PredictionRequest } from "../request.ts";
import type { RetentionLimits } from "../store.ts";
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
  readonly request: PredictionRequest & { readonly body: string | Uint8Array<ArrayBuffer> };
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
  /** The caller that waits for the write of the request, if this outcome has replaced that write in the queue. */
  readonly waiting: Waiting | undefined;
}

/** Removes an unfinished prediction whose outcome exceeds the limits of retention and is never written. */
export interface DropChange extends Numbered {
  readonly op: "drop";
}

export type Change = CreateChange | BegunChange | EndChange | DropChange;

/** Maximum changes in a transaction, and maximum bytes of their bodies and outcomes. More would delay the requests among them. */
const MAX_CHANGES = 2000;
const MAX_BYTES = 8 * 2 ** 20;

export interface Batch {
  readonly changes: Change[];
  /** Large outcomes. The file of each must be written before its row. */
  readonly large: EndChange[];
}

export class ChangeQueue {
  readonly #limits: RetentionLimits;
  #waiting = new Map<string, Change>();
  #nextNumber = 0;

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
  }

  get nextNumber(): number {
    return this.#nextNumber;
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
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

  end(record: EndedRecord, bytes: number): void {
    this.#add({
      op: "end",
      number: this.#nextNumber++,
      id: record.id,
      record,
      bytes,
      file: undefined,
      atMs: performance.now(),
      waiting: undefined,
    });
  }

  /** Removes and returns the next changes, with at most `maxFiles` large outcomes. */
  take(maxFiles: number): Batch {
    const batch: Batch = { changes: [], large: [] };
    let bytes = 0;
    for (const change of this.#waiting.values()) {
      if (batch.changes.length >= MAX_CHANGES || bytes >= MAX_BYTES) break;
      const isLarge = needsFile(change);
      if (isLarge && batch.large.length === maxFiles) continue;
      this.#waiting.delete(change.id);
      if (isLarge) batch.large.push(change);
      else {
        batch.changes.push(change);
        bytes += bytesOf(change);
      }
    }
    this.#renew();
    return batch;
  }

  takeCreations(): Batch {
    const changes: Change[] = [];
    let bytes = 0;
    for (const change of this.#waiting.values()) {
      if (changes.length >= MAX_CHANGES || bytes >= MAX_BYTES) break;
      if (change.op !== "create") continue;
      this.#waiting.delete(change.id);
      changes.push(change);
      bytes += bytesOf(change);
    }
    this.#renew();
    return { changes, large: [] };
  }

  /** Queues the row of a large outcome whose file is written. */
  addFiled(change: EndChange): void {
    this.#add(change);
  }

  /** Queues changes again whose write has failed, without outcomes beyond the limits of retention. */
  putBack(changes: readonly Change[]): void {
    const later = this.#waiting;
    this.#waiting = new Map(changes.map((change) => [change.id, change]));
    for (const change of later.values()) this.#add(change);
    this.#dropEvicted();
  }

  find(id: string): EndedRecord | undefined {
    const change = this.#waiting.get(id);
    return change?.op === "end" ? change.record : undefined;
  }

  hasEnd(id: string): boolean {
    return this.#waiting.get(id)?.op === "end";
  }

  oldestNumber(): number {
    return this.#waiting.values().reduce((oldest, { number }) => Math.min(oldest, number), Infinity);
  }

  get unwritten(): { count: number; bytes: number } {
    const total = { count: 0, bytes: 0 };
    for (const change of this.#waiting.values()) {
      if (change.op !== "end") continue;
      total.count += 1;
      total.bytes += change.bytes;
    }
    return total;
  }

  /** Replaces the empty Map, which would keep the memory of former entries. (OpenMap has no order.) */
  #renew(): void {
    if (this.#waiting.size === 0) this.#waiting = new Map();
  }

  #add(change: Change): void {
    this.#waiting.set(change.id, merged(this.#waiting.get(change.id), change));
  }

  /** Drops outcomes that the database would evict right after their write. */
  #dropEvicted(): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    const ends = this.#waiting
      .values()
      .filter((change) => change.op === "end")
      .toArray();
    let { length: count } = ends;
    let bytes = ends.reduce((sum, end) => sum + end.bytes, 0);
    const nowMs = performance.now();
    for (const { id, number, waiting, ...end } of ends) {
      const isOver = count > maxCount || (bytes > maxBytes && count > 1) || nowMs - end.atMs > maxAgeMs;
      if (!isOver) continue;
      waiting?.resolve();
      this.#waiting.set(id, { op: "drop", number, id });
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

function needsFile(change: Change): change is EndChange {
  if (change.op !== "end" || change.file !== undefined) return false;
  return change.record.outcome.members.length + change.record.logs.length > MAX_INLINE_LENGTH;
}

/** Bytes of the body or outcome in the row of a change. */
function bytesOf(change: Change): number {
  if (change.op === "create") return change.file === undefined ? change.request.body.length : 0;
  return change.op === "end" && change.file === undefined ? change.bytes : 0;
}
