/** Writes queued changes to the database in batches, large outcomes to files first. Failed writes are repeated. */

import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { piecesOf } from "../large-text.ts";
import type { EndedRecord } from "../record.ts";
import type { RetentionLimits } from "../store.ts";
import { type Change, ChangeQueue, type CreateChange, type EndChange } from "./change-queue.ts";
import { databaseFault, unwritable } from "./database-fault.ts";
import type { DatabaseThread } from "./database-thread.ts";
import { rowOf, type Totals } from "./rows.ts";
import type { ValueFiles } from "./value-files.ts";

/** Milliseconds until a failed write is repeated: `first`, then twice as long each time, up to `last`. */
const RETRY_MS = { first: 250, last: 10_000 };
/** Content of a test file, which shows whether the disk accepts writes again. */
const PROBE = new Uint8Array(64 * 1024);
/** Maximum files that are written at the same time. */
const MAX_FILING = 4;

export interface WriterOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  readonly thread: DatabaseThread;
  readonly files: ValueFiles;
  readonly wallClock: () => number;
  /** Counts the memory of unwritten outcomes. */
  readonly memory?: MemoryAccount | undefined;
  /** Called for an outcome that was not written, because the database had one for the id already. */
  readonly onRefused: (id: string) => void;
}

export class SqliteWriter {
  readonly #options: WriterOptions;
  readonly #queue: ChangeQueue;
  readonly #charge: Charge | undefined;
  #totals: Totals = { totalCount: 0, totalBytes: 0 };
  /** The changes that the current commit writes. */
  #posted: readonly Change[] = [];
  /** Large outcomes by id, while their files are written. */
  readonly #filing = new Map<string, EndChange>();
  /** Settles when the row of the latest large outcome is queued. */
  #lastFiled: Promise<void> = Promise.resolve();
  #isScheduled = false;
  #isStopped = false;
  /**
   * Set from a failed write until the next attempt. Until then, only new requests are written: clients wait for them.
   */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Milliseconds from a failed write to the next attempt; 0 while writing works. */
  #retryMs = 0;
  /** Number of the next change at the last failure. After all earlier changes are written, writing works again. */
  #faultyUpTo = 0;
  /** Writes in progress, as promises that never reject. */
  readonly #attempts = new Set<Promise<void>>();
  #flushes: PromiseWithResolvers<void>[] = [];

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#queue = new ChangeQueue(options.retention);
    this.#charge = options.memory?.add("outputs", 0);
  }

  /** Retained predictions in the database, which the thread reports. */
  set totals(totals: Totals) {
    this.#totals = totals;
  }

  /** Whether writing fails. It works again when all changes before the last failure are written. */
  get isUnwritable(): boolean {
    return this.#retryMs > 0;
  }

  /** Retained predictions, including outcomes that are not written yet. */
  get retained(): { count: number; bytes: number } {
    const { maxCount, maxBytes } = this.#options.retention;
    const { count, bytes } = this.#queue.unwritten;
    const all = { count: this.#totals.totalCount + count, bytes: this.#totals.totalBytes + bytes };
    // The next commit evicts what exceeds the limits, except the newest result.
    if (all.count <= 1) return all;
    return { count: Math.min(all.count, maxCount), bytes: Math.min(all.bytes, maxBytes) };
  }

  /**
   * Writes a request. Resolves after the commit.
   * @throws SconceError `predictions_unwritable`
   */
  create(change: Pick<CreateChange, "request" | "file" | "begunAtMs">): Promise<void> {
    if (this.#isStopped) throw unwritable("it is closed");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.create({ ...change, waiting: { resolve, reject } });
    this.#wake();
    return promise;
  }

  /**
   * Records that the prediction runs.
   * @param begunAtMs milliseconds since 1970; undefined if it stops because the process exits
   */
  begun(id: string, begunAtMs: number | undefined): void {
    this.#queue.begun(id, begunAtMs);
    this.#wake();
  }

  /** Removes an unfinished prediction from the database. */
  drop(id: string): void {
    this.#queue.drop(id);
    this.#wake();
  }

  end(record: EndedRecord, bytes: number): void {
    if (this.#isStopped) return;
    this.#queue.end(record, bytes);
    this.#charge?.grow(bytes);
    this.#wake();
  }

  /** The record of an ended prediction that is not written yet; undefined if there is none. */
  find(id: string): EndedRecord | undefined {
    const posted = this.#posted.find((change) => change.id === id);
    if (posted?.op === "end") return posted.record;
    return this.#filing.get(id)?.record ?? this.#queue.find(id);
  }

  /** Resolves when an outcome is written, or its write has failed. */
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

  /**
   * Writes all changes that are queued now.
   * @throws SconceError `predictions_unwritable` after a failure; the write is repeated later
   */
  async flush(): Promise<void> {
    const { nextNumber } = this.#queue;
    // First waits for the writes in progress, which report failures to their callers, not to this flush.
    await Promise.all(this.#attempts);
    this.#stopRetrying();
    while (this.#oldestNumber() < nextNumber && !this.#isStopped) {
      const flush = Promise.withResolvers<void>();
      this.#flushes.push(flush);
      this.#wake();
      await flush.promise;
    }
  }

  /** Writes the queued changes once, and stops. Outcomes that cannot be written are lost. */
  async stop(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      log.warn(`${this.#queue.unwritten.count} outcomes are lost: ${messageOf(error)}`);
    }
    this.#isStopped = true;
    this.#stopRetrying();
  }

  /** Starts a commit in the next turn of the event loop, unless one is running: its end starts the next. */
  #wake(): void {
    if (this.#isScheduled || this.#isStopped || this.#posted.length > 0) return;
    this.#isScheduled = true;
    setImmediate(this.#post);
  }

  readonly #post = (): void => {
    this.#isScheduled = false;
    const isFaulty = this.#retryTimer !== undefined;
    const { changes, large } = isFaulty
      ? this.#queue.takeCreations()
      : this.#queue.take(MAX_FILING - this.#filing.size);
    for (const change of large) {
      this.#lastFiled = this.#file(change, this.#lastFiled);
      this.#attempt(this.#lastFiled);
    }
    if (changes.length === 0) {
      // Ends flushes whose changes retention has dropped: no commit will follow.
      if (this.#filing.size === 0) this.#endFlushes();
      if (this.isUnwritable && !isFaulty && this.#filing.size === 0) this.#attempt(this.#probe());
      return;
    }
    this.#attempt(this.#commit(changes));
  };

  #attempt(attempt: Promise<void>): void {
    this.#attempts.add(attempt);
    void attempt.finally(() => this.#attempts.delete(attempt));
  }

  async #commit(changes: readonly Change[]): Promise<void> {
    const { wallClock, thread, onRefused } = this.#options;
    this.#posted = changes;
    try {
      const nowMs = performance.now();
      const rows = JSON.stringify(changes.map((change) => rowOf(change, nowMs)));
      const { refused, ...totals } = await thread.call("write", { rows, wallMs: wallClock() });
      this.#posted = [];
      this.#totals = totals;
      for (const id of refused === "" ? [] : refused.split(" ")) onRefused(id);
      for (const change of changes) if ("waiting" in change) change.waiting?.resolve();
      // Charges only outcomes that are still unwritten: retention may also have dropped some.
      this.#charge?.grow(this.#unwrittenBytes() - this.#charge.bytes);
      this.#succeeded();
    } catch (error) {
      this.#posted = [];
      this.#failed(messageOf(error), changes);
    }
    if (!this.#queue.isEmpty) this.#wake();
  }

  /**
   * Writes a large outcome to a file, then queues its row.
   * @param earlier settles when the previous outcome's row is queued: retention evicts rows in the order of the ends
   */
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

  /** Tests the disk when nothing is queued, since a server whose writes fail gets no new requests. */
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

  /**
   * Refuses the requests of a failed write, and queues its other changes again. Outcomes stay in memory, readable for
   * clients, until they are written.
   */
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

  /** Lets waiting flushes check whether their changes are written. */
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
