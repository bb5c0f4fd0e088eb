/** Writes the queue of changes: one batch at a time, large outcomes to files before, and again what could not be written. */

import { messageOf, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import type { Charge } from "../../memory/charge.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { piecesOf } from "../large-text.ts";
import type { EndedRecord } from "../record.ts";
import type { RetentionLimits } from "../store.ts";
import type { Change, EndChange } from "./change.ts";
import { ChangeQueue } from "./change-queue.ts";
import { databaseFault } from "./database-fault.ts";
import type { KeptFiles } from "./kept-files.ts";
import { encodeBatch } from "./sqlite-batch.ts";
import type { SqliteLink } from "./sqlite-link.ts";
import type { Totals } from "./sqlite-messages.ts";
import { packOf } from "./told-pack.ts";

/**
 * Ends that were told with the answer are written a few at a time: a thousand a second cost a hundredth of a core. Of more that wait a share is
 * written each time, so that a server that makes ten thousand a second has about a second of them to write, and forgets none before its time.
 */
const LAZY_MS = 250;
const LAZY_COUNT = 250;
const LAZY_SHARE = 0.25;
/** What cannot be written is tried again after the first, then after twice as long, up to the last. */
const RETRY_MS = { first: 250, last: 10_000 };
/** Outcomes that are written to files at the same time. */
const MAX_FILING = 4;

export interface WriterOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  readonly link: SqliteLink;
  readonly files: KeptFiles;
  readonly wallClock: () => number;
  /** Counts outcomes that are not written yet. */
  readonly memory?: MemoryAccount | undefined;
  /** Told of an outcome that was not the first. */
  readonly onRefused: (id: string) => void;
}

export class SqliteWriter {
  readonly #options: WriterOptions;
  readonly #queue: ChangeQueue;
  readonly #charge: Charge | undefined;
  #totals: Totals = { totalCount: 0, totalBytes: 0 };
  /** Being committed. */
  #posted: readonly Change[] = [];
  /** Being written to files, by id. */
  readonly #filing = new Map<string, EndChange>();
  /** Settled when the last of them is. */
  #lastFiled: Promise<void> = Promise.resolve();
  #isScheduled = false;
  #isStopped = false;
  #lazyTimer: ReturnType<typeof setTimeout> | undefined;
  /** Runs while nothing can be written; then creations alone are tried, as someone waits for them. */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** 0 while all can be written. */
  #retryMs = 0;
  /** Once all changes before this number are written, all can be written again. */
  #faultyUpTo = 0;
  /** Never rejected. */
  readonly #attempts = new Set<Promise<void>>();
  #flushes: PromiseWithResolvers<void>[] = [];

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#queue = new ChangeQueue(options.retention);
    this.#charge = options.memory?.add("outputs", 0);
  }

  /** Of the database, as of its last commit. */
  set totals(totals: Totals) {
    this.#totals = totals;
  }

  /** With what is not written yet. */
  get retained(): { count: number; bytes: number } {
    const { maxCount, maxBytes } = this.#options.retention;
    const { count, bytes } = this.#queue.unwritten;
    const all = { count: this.#totals.totalCount + count, bytes: this.#totals.totalBytes + bytes };
    // What is over the limits goes with the next commit; one result alone may be larger than all together.
    if (all.count <= 1) return all;
    return { count: Math.min(all.count, maxCount), bytes: Math.min(all.bytes, maxBytes) };
  }

  /** @throws SconceError `predictions_unwritable` */
  create(change: Omit<Parameters<ChangeQueue["create"]>[0], "waiting">): Promise<void> {
    if (this.#isStopped) throw unwritable("it is closed");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.create({ ...change, waiting: { resolve, reject } });
    this.#wake();
    return promise;
  }

  /** @param begunAtMs undefined: not any more */
  begun(id: string, begunAtMs: number | undefined): void {
    this.#queue.begun(id, begunAtMs);
    this.#wake();
  }

  drop(id: string): void {
    this.#queue.drop(id);
    this.#wake();
  }

  /** @param isCreated whether a request of it may be in the database; else there is no hurry */
  end(record: EndedRecord, bytes: number, isCreated: boolean): void {
    if (this.#isStopped) return;
    this.#queue.end(record, bytes, isCreated);
    this.#charge?.grow(bytes);
    if (this.#queue.hasDue) this.#wake();
    if (!isCreated) this.#lazyTimer ??= setTimeout(this.#writeLazy, LAZY_MS);
  }

  /**
   * An outcome that is not written yet.
   * @param upToMs of those that were told with the answer, later ones are not looked for, by the monotonic clock
   */
  find(id: string, upToMs: number): EndedRecord | undefined {
    const posted = this.#posted.find((change) => change.id === id);
    if (posted?.op === "end") return posted.record;
    return this.#filing.get(id)?.record ?? this.#queue.find(id, upToMs);
  }

  /** Resolves when the outcome of a prediction that was kept as a request is written, or cannot be now. */
  async written(id: string): Promise<void> {
    while (this.#isOnItsWay(id) && this.#retryTimer === undefined && !this.#isStopped) {
      const turn = Promise.withResolvers<void>();
      this.#flushes.push(turn);
      await turn.promise.catch(() => {});
    }
  }

  #isOnItsWay(id: string): boolean {
    return (
      this.#queue.hasEnd(id) ||
      this.#filing.has(id) ||
      this.#posted.some(({ id: each, op }) => each === id && op === "end")
    );
  }

  /** @throws SconceError `predictions_unwritable` when not all can be written now; it is tried again all the same */
  async flush(): Promise<void> {
    const { nextNumber } = this.#queue;
    // What they say of the disk is no news.
    await Promise.all(this.#attempts);
    this.#queue.hasten();
    this.#stopRetrying();
    while (this.#oldestNumber() < nextNumber && !this.#isStopped) {
      const turn = Promise.withResolvers<void>();
      this.#flushes.push(turn);
      this.#wake();
      await turn.promise;
    }
  }

  /** Writes what it can. */
  async stop(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      log.warn(`${this.#queue.unwritten.count} outcomes are lost: ${messageOf(error)}`);
    }
    this.#isStopped = true;
    clearTimeout(this.#lazyTimer);
    this.#stopRetrying();
  }

  readonly #writeLazy = (): void => {
    this.#lazyTimer = undefined;
    this.#queue.hasten(Math.max(LAZY_COUNT, Math.ceil(LAZY_SHARE * this.#queue.lazyCount)));
    this.#wake();
  };

  /** One batch a turn of the loop, and one at a time: what comes meanwhile goes into the next transaction. */
  #wake(): void {
    if (this.#isScheduled || this.#isStopped || this.#posted.length > 0) return;
    this.#isScheduled = true;
    setImmediate(this.#post);
  }

  readonly #post = (): void => {
    this.#isScheduled = false;
    const isFaulty = this.#retryTimer !== undefined;
    const { changes, told, large } = isFaulty
      ? this.#queue.takeCreations()
      : this.#queue.take(MAX_FILING - this.#filing.size);
    for (const change of large) {
      this.#lastFiled = this.#file(change, this.#lastFiled);
      this.#attempt(this.#lastFiled);
    }
    if (this.#queue.lazyCount > 0) this.#lazyTimer ??= setTimeout(this.#writeLazy, LAZY_MS);
    if (changes.length + told.length === 0) {
      // Retention may have dropped all that was to be flushed.
      if (this.#filing.size === 0) this.#endFlushes();
      return;
    }
    this.#attempt(this.#commit(changes, told));
  };

  #attempt(attempt: Promise<void>): void {
    this.#attempts.add(attempt);
    void attempt.finally(() => this.#attempts.delete(attempt));
  }

  async #commit(changes: readonly Change[], told: readonly EndChange[]): Promise<void> {
    const { wallClock, link, onRefused } = this.#options;
    this.#posted = told.length === 0 ? changes : [...changes, ...told];
    try {
      const nowMs = performance.now();
      const batch = { ...encodeBatch(changes, nowMs), ...packOf(told, nowMs) };
      const { refused, ...totals } = await link.write({ ...batch, wallMs: wallClock() });
      this.#posted = [];
      this.#totals = totals;
      for (const id of refused === "" ? [] : refused.split(" ")) onRefused(id);
      for (const change of changes) if ("waiting" in change) change.waiting?.resolve();
      // Retention may have dropped others meanwhile.
      this.#charge?.grow(this.#unwrittenBytes() - this.#charge.bytes);
      this.#succeeded();
    } catch (error) {
      this.#posted = [];
      this.#failed(messageOf(error), [...changes, ...told]);
    }
    if (this.#queue.hasDue) this.#wake();
  }

  /** @param earlier of the file before it: rows are made in the order in which predictions ended, as the oldest row goes first */
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

  #succeeded(): void {
    this.#endFlushes();
    if (this.#retryMs === 0 || this.#oldestNumber() < this.#faultyUpTo) return;
    log.info(`The predictions in ${this.#options.path} are written again.`);
    this.#retryMs = 0;
    this.#stopRetrying();
  }

  /** Creations are refused; ends stay in memory, can be read, and are written later. */
  #failed(reason: string, changes: readonly Change[]): void {
    const error = unwritable(reason);
    this.#faultyUpTo = this.#queue.nextNumber;
    if (this.#retryMs === 0) {
      const { path } = this.#options;
      log.warn(`The predictions in ${path} cannot be written: ${reason}. What ends stays in memory until they can.`);
    }
    for (const change of changes) if ("waiting" in change) change.waiting?.reject(error);
    const ends = changes.filter(({ op }) => op !== "create");
    this.#queue.putBack(ends.map((change) => (change.op === "end" ? { ...change, waiting: undefined } : change)));
    for (const { reject } of this.#flushes.splice(0)) reject(error);
    if (this.#retryTimer !== undefined || this.#isStopped) return;
    this.#retryMs = Math.min(RETRY_MS.last, Math.max(RETRY_MS.first, this.#retryMs * 2));
    this.#retryTimer = setTimeout(() => {
      this.#stopRetrying();
      this.#wake();
    }, this.#retryMs);
  }

  /** Each looks again whether all that it waits for is written. */
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
    const taken = [...this.#posted, ...this.#filing.values()].map(({ number }) => number);
    return taken.reduce((oldest, number) => Math.min(oldest, number), this.#queue.oldestNumber());
  }
}

/** The path is for the log: clients are shown this. */
export function unwritable(reason: string, cause?: unknown): SconceError {
  const message = `the prediction cannot be kept now: the store says that ${reason}`;
  return new SconceError("predictions_unwritable", message, { cause });
}
