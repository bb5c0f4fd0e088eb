/** Writes the changes of the queue, one batch at a time. Large outcomes go to files first; failed batches are written again. */

import { messageOf } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import type { Charge } from "../../memory/charge.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { piecesOf } from "../large-text.ts";
import type { EndedRecord } from "../record.ts";
import type { RetentionLimits } from "../store.ts";
import { type Change, ChangeQueue, type CreateChange, type EndChange } from "./change-queue.ts";
import { databaseFault, unwritable } from "./database-fault.ts";
import type { DatabaseThread } from "./database-thread.ts";
import type { Totals } from "./prediction-database.ts";
import { encodeRows, packOf } from "./row-text.ts";
import type { ValueFiles } from "./value-files.ts";

/**
 * Deferred outcomes are written in small steps: a thousand a second cost a hundredth of a core. Each step writes at least this count, and this share of
 * a long queue, so that ten thousand outcomes a second wait for about a second.
 */
const DEFER_MS = 250;
const DEFER_COUNT = 250;
const DEFER_SHARE = 0.25;
/** The pause after a failed write; it doubles up to the second value. */
const RETRY_MS = { first: 250, last: 10_000 };
/** Test write after a failed write, to see whether the disk accepts writes again. */
const PROBE = new Uint8Array(64 * 1024);
/** Concurrent writes of files. */
const MAX_FILING = 4;

export interface WriterOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  readonly thread: DatabaseThread;
  readonly files: ValueFiles;
  readonly wallClock: () => number;
  /** Charged with unwritten outcomes. */
  readonly memory?: MemoryAccount | undefined;
  /** Called for a second outcome. */
  readonly onRefused: (id: string) => void;
}

export class SqliteWriter {
  readonly #options: WriterOptions;
  readonly #queue: ChangeQueue;
  readonly #charge: Charge | undefined;
  #totals: Totals = { totalCount: 0, totalBytes: 0 };
  /** The batch of the current commit. */
  #posted: readonly Change[] = [];
  /** Outcomes in the writing to files, by id. */
  readonly #filing = new Map<string, EndChange>();
  /** Settles with the last of them. */
  #lastFiled: Promise<void> = Promise.resolve();
  #isScheduled = false;
  #isStopped = false;
  #deferTimer: ReturnType<typeof setTimeout> | undefined;
  /** Runs between a failed write and the next try. Until then only new predictions are written, because their clients wait. */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** 0 without a failure. */
  #retryMs = 0;
  /** The failure is over when all changes before this number are written. */
  #faultyUpTo = 0;
  /** Writes that run; they never reject. */
  readonly #attempts = new Set<Promise<void>>();
  #flushes: PromiseWithResolvers<void>[] = [];

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#queue = new ChangeQueue(options.retention);
    this.#charge = options.memory?.add("outputs", 0);
  }

  /** Totals of the database after its last commit. */
  set totals(totals: Totals) {
    this.#totals = totals;
  }

  /** Whether the last write failed. */
  get isUnwritable(): boolean {
    return this.#retryMs > 0;
  }

  /** Includes unwritten outcomes. */
  get retained(): { count: number; bytes: number } {
    const { maxCount, maxBytes } = this.#options.retention;
    const { count, bytes } = this.#queue.unwritten;
    const all = { count: this.#totals.totalCount + count, bytes: this.#totals.totalBytes + bytes };
    // The next commit evicts the excess. The newest result is retained whatever its size.
    if (all.count <= 1) return all;
    return { count: Math.min(all.count, maxCount), bytes: Math.min(all.bytes, maxBytes) };
  }

  /** @throws SconceError `predictions_unwritable` */
  create(change: Pick<CreateChange, "request" | "file" | "begunAtMs">): Promise<void> {
    if (this.#isStopped) throw unwritable("it is closed");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.create({ ...change, waiting: { resolve, reject } });
    this.#wake();
    return promise;
  }

  /** @param begunAtMs undefined after an interruption */
  begun(id: string, begunAtMs: number | undefined): void {
    this.#queue.begun(id, begunAtMs);
    this.#wake();
  }

  /** Removes an unfinished prediction. */
  drop(id: string): void {
    this.#queue.drop(id);
    this.#wake();
  }

  /** @param isStored whether the database may have the request; if not, the write is deferred */
  end(record: EndedRecord, bytes: number, isStored: boolean): void {
    if (this.#isStopped) return;
    this.#queue.end(record, bytes, isStored);
    this.#charge?.grow(bytes);
    if (this.#queue.hasDue) this.#wake();
    if (!isStored) this.#deferTimer ??= setTimeout(this.#writeDeferred, DEFER_MS);
  }

  /** An outcome that is not written yet. */
  find(id: string): EndedRecord | undefined {
    const posted = this.#posted.find((change) => change.id === id);
    if (posted?.op === "end") return posted.record;
    return this.#filing.get(id)?.record ?? this.#queue.find(id);
  }

  /** Resolves when the outcome of a stored request is written, or its write has failed. */
  async written(id: string): Promise<void> {
    while (this.#isPending(id) && this.#retryTimer === undefined && !this.#isStopped) {
      const flush = Promise.withResolvers<void>();
      this.#flushes.push(flush);
      await flush.promise.catch(() => {});
    }
  }

  #isPending(id: string): boolean {
    const isPosted = () => this.#posted.some(({ id: each, op }) => each === id && op === "end");
    return this.#queue.hasEnd(id) || this.#filing.has(id) || isPosted();
  }

  /** @throws SconceError `predictions_unwritable` after a failed write, which is tried again all the same */
  async flush(): Promise<void> {
    const { nextNumber } = this.#queue;
    // The failures of these attempts were reported already.
    await Promise.all(this.#attempts);
    this.#queue.hasten();
    this.#stopRetrying();
    while (this.#oldestNumber() < nextNumber && !this.#isStopped) {
      const flush = Promise.withResolvers<void>();
      this.#flushes.push(flush);
      this.#wake();
      await flush.promise;
    }
  }

  /** Writes the remaining changes, if it can. */
  async stop(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      log.warn(`${this.#queue.unwritten.count} outcomes are lost: ${messageOf(error)}`);
    }
    this.#isStopped = true;
    clearTimeout(this.#deferTimer);
    this.#stopRetrying();
  }

  readonly #writeDeferred = (): void => {
    this.#deferTimer = undefined;
    this.#queue.hasten(Math.max(DEFER_COUNT, Math.ceil(DEFER_SHARE * this.#queue.deferredCount)));
    this.#wake();
  };

  /** Posts one batch at a time, once per turn of the event loop. Later changes go into the next transaction. */
  #wake(): void {
    if (this.#isScheduled || this.#isStopped || this.#posted.length > 0) return;
    this.#isScheduled = true;
    setImmediate(this.#post);
  }

  readonly #post = (): void => {
    this.#isScheduled = false;
    const isFaulty = this.#retryTimer !== undefined;
    const { changes, packed, large } = isFaulty
      ? this.#queue.takeCreations()
      : this.#queue.take(MAX_FILING - this.#filing.size);
    for (const change of large) {
      this.#lastFiled = this.#file(change, this.#lastFiled);
      this.#attempt(this.#lastFiled);
    }
    if (this.#queue.deferredCount > 0) this.#deferTimer ??= setTimeout(this.#writeDeferred, DEFER_MS);
    if (changes.length + packed.length === 0) {
      // Retention may have dropped the changes that a flush waits for.
      if (this.#filing.size === 0) this.#endFlushes();
      if (this.isUnwritable && !isFaulty && this.#filing.size === 0) this.#attempt(this.#probe());
      return;
    }
    this.#attempt(this.#commit(changes, packed));
  };

  #attempt(attempt: Promise<void>): void {
    this.#attempts.add(attempt);
    void attempt.finally(() => this.#attempts.delete(attempt));
  }

  async #commit(changes: readonly Change[], packed: readonly EndChange[]): Promise<void> {
    const { wallClock, thread, onRefused } = this.#options;
    this.#posted = packed.length === 0 ? changes : [...changes, ...packed];
    try {
      const nowMs = performance.now();
      const batch = { ...encodeRows(changes, nowMs), ...packOf(packed, nowMs), wallMs: wallClock() };
      const { refused, ...totals } = await thread.call("write", batch);
      this.#posted = [];
      this.#totals = totals;
      for (const id of refused === "" ? [] : refused.split(" ")) onRefused(id);
      for (const change of changes) if ("waiting" in change) change.waiting?.resolve();
      // Retention may have dropped other outcomes meanwhile.
      this.#charge?.grow(this.#unwrittenBytes() - this.#charge.bytes);
      this.#succeeded();
    } catch (error) {
      this.#posted = [];
      this.#failed(messageOf(error), [...changes, ...packed]);
    }
    if (this.#queue.hasDue) this.#wake();
  }

  /** @param earlier the file before this one. Retention evicts rows in their order, so they must have the order of the ends. */
  async #file(change: EndChange, earlier: Promise<void>): Promise<void> {
    const { id, record } = change;
    this.#filing.set(id, change);
    try {
      const file = await this.#options.files.write(id, [...piecesOf(record.outcome.members), record.logs]);
      await earlier;
      this.#queue.addFiled({ ...change, file });
      this.#filing.delete(id);
      this.#wake();
    } catch (error) {
      this.#filing.delete(id);
      this.#failed(databaseFault(error), [change]);
    }
  }

  /** Tests the disk while there is nothing to write: a server that is not ready gets no requests. */
  async #probe(): Promise<void> {
    const { files } = this.#options;
    try {
      await files.remove(await files.write("probe", [PROBE]));
      this.#succeeded();
    } catch (error) {
      this.#failed(databaseFault(error), []);
    }
  }

  #succeeded(): void {
    this.#endFlushes();
    if (this.#retryMs === 0 || this.#oldestNumber() < this.#faultyUpTo) return;
    log.info(`The predictions in ${this.#options.path} are written again.`);
    this.#retryMs = 0;
    this.#stopRetrying();
  }

  /** Refuses creations. Outcomes stay in memory, where clients can read them, until a write succeeds. */
  #failed(reason: string, changes: readonly Change[]): void {
    const error = unwritable(reason);
    this.#faultyUpTo = this.#queue.nextNumber;
    if (this.#retryMs === 0) {
      const { path } = this.#options;
      log.warn(`The predictions in ${path} cannot be written: ${reason}. What ends stays in memory until they can.`);
    }
    for (const change of changes) if ("waiting" in change) change.waiting?.reject(error);
    const retried = changes.filter(({ op }) => op !== "create");
    this.#queue.putBack(retried.map((change) => (change.op === "end" ? { ...change, waiting: undefined } : change)));
    for (const { reject } of this.#flushes.splice(0)) reject(error);
    if (this.#retryTimer !== undefined || this.#isStopped) return;
    this.#retryMs = Math.min(RETRY_MS.last, Math.max(RETRY_MS.first, this.#retryMs * 2));
    this.#retryTimer = setTimeout(() => {
      this.#stopRetrying();
      this.#wake();
    }, this.#retryMs);
  }

  /** Lets each flush check again whether its changes are written. */
  #endFlushes(): void {
    for (const { resolve } of this.#flushes.splice(0)) resolve();
  }

  #stopRetrying(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
  }

  #unwrittenBytes(): number {
    return this.#filing.values().reduce((sum, { bytes }) => sum + bytes, this.#queue.unwritten.bytes);
  }

  #oldestNumber(): number {
    const numbers = [...this.#posted, ...this.#filing.values()].map(({ number }) => number);
    return numbers.reduce((oldest, number) => Math.min(oldest, number), this.#queue.oldestNumber());
  }
}
