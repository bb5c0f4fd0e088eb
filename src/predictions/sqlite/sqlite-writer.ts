/** Writes changes to the database: all of one turn of the event loop in one commit, large outcomes to files first. Failed writes are repeated. */

import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { piecesOf } from "../large-text.ts";
import type { EndedRecord } from "../record.ts";
import type { RetentionLimits } from "../retention.ts";
import { type Change, Changes, type Creation, type End } from "./changes.ts";
import { databaseFault, unwritable } from "./database-fault.ts";
import type { DatabaseThread } from "./database-thread.ts";
import { rowOf, type Totals } from "./rows.ts";
import { MAX_INLINE_LENGTH, type ValueFiles } from "./value-files.ts";

/** Milliseconds until a failed write is repeated: `first`, then twice as long each time, up to `last`. */
const RETRY_MS = { first: 250, last: 10_000 };
/** Content of a test file, which shows whether the disk accepts writes again. */
const PROBE = new Uint8Array(64 * 1024);

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
  readonly #changes: Changes;
  readonly #charge: Charge | undefined;
  /** Retained predictions in the database, as the thread has reported last. */
  totals: Totals = { totalCount: 0, totalBytes: 0 };
  /** The changes that the current commit writes. */
  #posted: readonly Change[] = [];
  /** Large outcomes whose files are not written, oldest first. One file is written at a time: retention evicts in the order of the ends. */
  readonly #unfiled = new Map<string, End>();
  #filing: Promise<void> | undefined;
  #isScheduled = false;
  #isStopped = false;
  /** Set from a failed write until the next attempt. Until then, only changes that callers wait for are written. */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Milliseconds from a failed write to the next attempt; 0 while writing works. */
  #retryMs = 0;
  /** Callers that wait for the end of the next write. */
  #steps: PromiseWithResolvers<void>[] = [];

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#changes = new Changes(options.retention);
    this.#charge = options.memory?.add("outputs", 0);
  }

  /** Whether writing fails. */
  get isUnwritable(): boolean {
    return this.#retryMs > 0;
  }

  /** Retained predictions, including outcomes that are not written yet. */
  get retained(): { count: number; bytes: number } {
    const { maxCount, maxBytes } = this.#options.retention;
    const all = { count: this.totals.totalCount, bytes: this.totals.totalBytes };
    for (const { bytes } of this.#unwritten()) {
      all.count += 1;
      all.bytes += bytes;
    }
    // The next commit evicts what exceeds the limits, except the newest result.
    if (all.count <= 1) return all;
    return { count: Math.min(all.count, maxCount), bytes: Math.min(all.bytes, maxBytes) };
  }

  /**
   * Writes a request. Resolves after the commit.
   * @throws SconceError `predictions_unwritable`
   */
  create(creation: Omit<Creation, "atMs">, begunAtMs: number | undefined): Promise<void> {
    return this.#waited((waiting) => {
      this.#changes.create({ ...creation, atMs: performance.now() }, waiting);
      if (begunAtMs !== undefined) this.#changes.begun(creation.request.id, begunAtMs);
    });
  }

  /** Writes a webhook. Resolves after the commit. @throws SconceError `predictions_unwritable` */
  addWebhook(id: string, webhook: string): Promise<void> {
    return this.#waited((waiting) => this.#changes.webhook(id, webhook, waiting));
  }

  removeWebhook(id: string): void {
    this.#changes.webhook(id, null);
    this.#wake();
  }

  /**
   * Records that the prediction runs.
   * @param begunAtMs milliseconds since 1970; undefined if it stops because the process exits
   */
  begun(id: string, begunAtMs: number | undefined): void {
    this.#changes.begun(id, begunAtMs);
    this.#wake();
  }

  end(record: EndedRecord, bytes: number): void {
    if (this.#isStopped) return;
    const end: End = { record, bytes, atMs: performance.now() };
    const isLarge = record.outcome.members.length + record.logs.length > MAX_INLINE_LENGTH;
    if (isLarge) this.#unfiled.set(record.id, end);
    else this.#changes.end(end);
    this.#charge?.grow(bytes);
    this.#wake();
  }

  /** The record of an ended prediction that is not written yet; undefined if there is none. */
  find(id: string): EndedRecord | undefined {
    const posted = this.#posted.find((change) => change.id === id)?.end?.record;
    return posted ?? this.#unfiled.get(id)?.record ?? this.#changes.find(id);
  }

  /** Resolves when an outcome is written, or its write has failed. */
  async written(id: string): Promise<void> {
    while (this.find(id) !== undefined && this.#retryTimer === undefined && !this.#isStopped)
      await this.#step().catch(() => {});
  }

  /**
   * Writes all changes.
   * @throws SconceError `predictions_unwritable` after a failure; the write is repeated later
   */
  async flush(): Promise<void> {
    // The writes in progress report failures to their callers, not to this flush.
    if (this.#posted.length > 0 || this.#filing !== undefined) await this.#step().catch(() => {});
    this.#stopRetrying();
    while (!this.#isIdle && !this.#isStopped) {
      this.#wake();
      await this.#step();
    }
  }

  /** Writes the queued changes once, and stops. Outcomes that cannot be written are lost. */
  async stop(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      log.warn(`${[...this.#unwritten()].length} outcomes are lost: ${messageOf(error)}`);
    }
    this.#isStopped = true;
    this.#stopRetrying();
  }

  get #isIdle(): boolean {
    return this.#changes.isEmpty && this.#posted.length === 0 && this.#unfiled.size === 0;
  }

  /** Resolves after the next write, and rejects if it fails. */
  #step(): Promise<void> {
    const step = Promise.withResolvers<void>();
    this.#steps.push(step);
    return step.promise;
  }

  #waited(change: (waiting: PromiseWithResolvers<void>) => void): Promise<void> {
    if (this.#isStopped) throw unwritable("it is closed");
    const waiting = Promise.withResolvers<void>();
    change(waiting);
    this.#wake();
    return waiting.promise;
  }

  *#unwritten(): Generator<End> {
    for (const { end } of this.#posted) if (end !== undefined) yield end;
    yield* this.#unfiled.values();
    yield* this.#changes.ends();
  }

  /** Starts a commit in the next turn of the event loop, unless one is running: its end starts the next. */
  #wake(): void {
    if (this.#isStopped) return;
    if (this.#retryTimer === undefined && this.#unfiled.size > 0) this.#filing ??= this.#fileAll();
    if (this.#isScheduled || this.#posted.length > 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      void this.#commit();
    });
  }

  async #commit(): Promise<void> {
    const { wallClock, thread, onRefused } = this.#options;
    const isRetry = this.isUnwritable && this.#retryTimer === undefined;
    const changes = this.#changes.take(this.#retryTimer !== undefined);
    const isLast = this.#changes.isEmpty && this.#unfiled.size === 0;
    // The file of a large outcome starts the next commit.
    if (changes.length === 0 && !isLast) return;
    this.#posted = changes;
    try {
      if (changes.length > 0) {
        const nowMs = performance.now();
        const rows = JSON.stringify(changes.map((change) => rowOf(change, nowMs)));
        const { refused, ...totals } = await thread.call("write", { rows, wallMs: wallClock() });
        this.#posted = [];
        this.totals = totals;
        for (const id of refused === "" ? [] : refused.split(" ")) onRefused(id);
        for (const { waiting } of changes) for (const { resolve } of waiting) resolve();
        this.#charged();
      } else if (isRetry) await this.#probe();
      this.#succeeded(isRetry && isLast);
    } catch (error) {
      this.#posted = [];
      this.#failed(messageOf(error), changes);
    }
    if (!this.#changes.isEmpty) this.#wake();
  }

  /** Writes large outcomes to files, and queues the row of each. */
  async #fileAll(): Promise<void> {
    for (const [id, end] of this.#unfiled) {
      const { outcome, logs } = end.record;
      try {
        const file = await this.#options.files.write(id, [...piecesOf(outcome.members), logs]);
        this.#unfiled.delete(id);
        this.#changes.end({ ...end, file });
        this.#wake();
      } catch (error) {
        this.#failed(databaseFault(error), []);
        break;
      }
    }
    this.#filing = undefined;
  }

  /** Tests the disk when nothing is queued, since a server whose writes fail gets no new requests. Throws if it is full. */
  async #probe(): Promise<void> {
    const { files } = this.#options;
    const file = await files.write("probe", [PROBE]).catch((error: unknown) => {
      throw new Error(databaseFault(error), { cause: error });
    });
    await files.remove(file);
  }

  #succeeded(isRepaired: boolean): void {
    for (const { resolve } of this.#steps.splice(0)) resolve();
    if (!isRepaired) return;
    log.info(`The predictions in ${this.#options.path} are written again.`);
    this.#retryMs = 0;
  }

  /**
   * Refuses the requests of a failed write, and queues its other changes again. Outcomes stay in memory, readable for
   * clients, until they are written.
   */
  #failed(reason: string, changes: readonly Change[]): void {
    const error = unwritable(reason);
    if (this.#retryMs === 0) {
      const { path } = this.#options;
      log.warn(`The predictions in ${path} cannot be written: ${reason}. What ends stays in memory until they can.`);
    }
    for (const { waiting } of changes) for (const { reject } of waiting) reject(error);
    this.#changes.putBack(changes);
    this.#charged();
    for (const { reject } of this.#steps.splice(0)) reject(error);
    if (this.#retryTimer !== undefined || this.#isStopped) return;
    this.#retryMs = Math.min(RETRY_MS.last, Math.max(RETRY_MS.first, this.#retryMs * 2));
    this.#retryTimer = setTimeout(() => {
      this.#stopRetrying();
      this.#wake();
    }, this.#retryMs);
  }

  /** Charges only outcomes that are still unwritten: retention may have dropped some. */
  #charged(): void {
    let bytes = 0;
    for (const end of this.#unwritten()) bytes += end.bytes;
    this.#charge?.grow(bytes - this.#charge.bytes);
  }

  #stopRetrying(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
  }
}
