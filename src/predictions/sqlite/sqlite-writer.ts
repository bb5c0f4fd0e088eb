/** Writes changes to the database: all changes of one turn of the event loop in one commit. Failed writes are repeated. */
import { OpenMap } from "../../base/collections/open-map.ts";
import { messageOf } from "../../base/errors.ts";
import { hashOf } from "../../base/id-hash.ts";
import { log } from "../../base/log.ts";
import { Turn } from "../../base/turn.ts";
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { byteLengthOf, LargeText, type Text } from "../large-text.ts";
import { type EndedRecord, fieldsOf } from "../record.ts";
import { type PredictionRequest, storedBody } from "../request.ts";
import { RECORD_BYTES } from "../retention.ts";
import { unwritable } from "./database-fault.ts";
import type { DatabaseThread } from "./database-thread.ts";
import { creationRow, type Row, type Totals } from "./rows.ts";

/** Milliseconds until a failed write is repeated. Until then, requests are refused. */
const RETRY_MS = 1000;
/** Maximum changes in a commit, and maximum bytes of their bodies and outcomes. More would delay the requests among them. */
const MAX_CHANGES = 2000;
const MAX_BYTES = 8 * 2 ** 20;
/** Larger bodies and outcomes go to the thread in pieces, beside the JSON of the changes. */
const MAX_INLINE_LENGTH = 64 * 1024;

/** A row to commit. */
interface Change {
  readonly row: Row;
  /** Characters or bytes of the body or the outcome. */
  readonly bytes: number;
  /** A body or an outcome that goes to the thread in pieces. */
  readonly large?: LargeText | undefined;
  readonly end?: EndedRecord;
  /** Settles after the commit. */
  readonly waiting?: PromiseWithResolvers<void>;
}

export interface WriterOptions {
  readonly path: string;
  readonly thread: DatabaseThread;
  readonly wallClock: () => number;
  /** Counts the memory of unwritten outcomes. */
  readonly memory?: MemoryAccount | undefined;
}

export class SqliteWriter {
  readonly #options: WriterOptions;
  readonly #charge: Charge | undefined;
  /** Retained predictions in the database, as the thread has reported last. */
  totals: Totals = { count: 0, bytes: 0 };
  /** Changes of the next commits, oldest first. */
  #queue: Change[] = [];
  /** Outcomes that are not written yet, by id. */
  readonly #ends = new OpenMap<string, Change>(hashOf);
  /** The commit that runs, or that begins in the next turn of the event loop. Never rejects. */
  #commit: Promise<void> | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Why the last write has failed; undefined while writing works. */
  #fault: Error | undefined;
  #isStopped = false;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#charge = options.memory?.add("outputs", 0);
  }

  /** Whether writing fails. */
  get isUnwritable(): boolean {
    return this.#fault !== undefined;
  }

  /** Outcomes that are not written yet: their number, and the bytes counted for them. */
  get unwritten(): Totals {
    let bytes = 0;
    for (const end of this.#ends) bytes += end.bytes;
    return { count: this.#ends.size, bytes };
  }

  /** Writes a request. Resolves after the commit. @throws SconceError `predictions_unwritable` */
  create(request: PredictionRequest): Promise<void> {
    const body = storedBody(request);
    const large = body.length > MAX_INLINE_LENGTH ? new LargeText([body]) : undefined;
    const creation = creationRow(request, large === undefined ? body : "");
    return this.#waited(rowOf(request.id, { creation, pieces: large?.pieces.length }), { large, bytes: body.length });
  }

  /** Writes a webhook. Resolves after the commit. @throws SconceError `predictions_unwritable` */
  addWebhook(id: string, webhook: string): Promise<void> {
    return this.#waited(rowOf(id, { webhook }));
  }

  removeWebhook(id: string): void {
    this.#add(rowOf(id, { webhook: null }));
  }

  /**
   * Records that the prediction runs.
   * @param runningSinceMs milliseconds since 1970; null if it stops because the process exits
   */
  processing(id: string, runningSinceMs: number | null): void {
    this.#add(rowOf(id, { runningSinceMs }));
  }

  /** Writes an outcome, and removes the request. The first outcome of an id stands. */
  end(end: EndedRecord): void {
    if (this.#isStopped || this.find(end.id) !== undefined) return;
    const { members } = end.outcome;
    const bytes = RECORD_BYTES + byteLengthOf(members) + Buffer.byteLength(end.logs);
    this.#charge?.grow(bytes);
    const large = largeOf(members);
    const fields = { ...fieldsOf(end), members: large === undefined ? String(members) : "", bytes };
    const row = rowOf(end.id, { end: fields, pieces: large?.pieces.length });
    this.#ends.set(end.id, this.#add(row, { end, large, bytes }));
  }

  /** The outcome of a prediction that is not written yet; undefined if there is none. */
  find(id: string): EndedRecord | undefined {
    return this.#ends.get(id)?.end;
  }

  /** Resolves when an outcome is written, or its write has failed. */
  async written(id: string): Promise<void> {
    while (this.#commit !== undefined && this.#ends.get(id) !== undefined) await this.#commit;
  }

  /**
   * Writes all changes.
   * @throws SconceError `predictions_unwritable` after a failure; the write is repeated later
   */
  async flush(): Promise<void> {
    await this.#commit;
    while (this.#queue.length > 0 && !this.#isStopped) {
      this.#stopRetrying();
      this.#wake();
      await this.#commit;
      if (this.#fault !== undefined) throw this.#fault;
    }
  }

  /** Writes the queued changes once, and stops. Outcomes that cannot be written are lost. */
  async stop(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      log.warn(`${this.#ends.size} outcomes are lost: ${messageOf(error)}`);
    }
    this.#isStopped = true;
    this.#stopRetrying();
  }

  #waited(row: Row, change: Partial<Change> = {}): Promise<void> {
    const error = this.#isStopped ? unwritable("it is closed") : this.#fault;
    if (error !== undefined) return Promise.reject(error);
    const waiting = Promise.withResolvers<void>();
    this.#add(row, { ...change, waiting });
    return waiting.promise;
  }

  #add(row: Row, change: Partial<Change> = {}): Change {
    const added = { bytes: 0, ...change, row };
    if (this.#isStopped) return added;
    this.#queue.push(added);
    this.#wake();
    return added;
  }

  #wake(): void {
    if (this.#retryTimer === undefined) this.#commit ??= this.#write();
  }

  async #write(): Promise<void> {
    // The next turn of the event loop writes all changes of this turn.
    await new Promise((resolve) => setImmediate(resolve));
    const changes = this.#take();
    try {
      await this.#send(changes);
      for (const { end, bytes, waiting } of changes) {
        waiting?.resolve();
        if (end === undefined) continue;
        this.#ends.delete(end.id);
        this.#charge?.grow(-bytes);
      }
      if (this.#fault !== undefined) log.info(`The predictions in ${this.#options.path} are written again.`);
      this.#fault = undefined;
    } catch (error) {
      this.#failed(messageOf(error), changes);
    }
    this.#commit = undefined;
    if (this.#queue.length > 0) this.#wake();
  }

  async #send(changes: readonly Change[]): Promise<void> {
    const { thread, wallClock } = this.#options;
    const turn = new Turn();
    for (const { large } of changes) {
      for (let i = 0, piece = large?.bytes(0); piece !== undefined; piece = large?.bytes(++i)) {
        if (turn.isOver) await turn.next();
        thread.sendPiece(piece);
      }
    }
    const rows = JSON.stringify(changes.map(({ row }) => row));
    this.totals = await thread.call("write", { rows, nowMs: performance.now(), wallMs: wallClock() });
  }

  /** Removes and returns the changes of the next commit. */
  #take(): Change[] {
    let [count, bytes] = [0, 0];
    for (const change of this.#queue) {
      if (count === MAX_CHANGES || bytes >= MAX_BYTES) break;
      count += 1;
      bytes += change.bytes;
    }
    return this.#queue.splice(0, count);
  }

  /**
   * Refuses the requests that wait, and queues the other changes again. Outcomes stay in memory, readable for clients,
   * until they are written.
   */
  #failed(reason: string, changes: readonly Change[]): void {
    const error = unwritable(reason);
    const { path } = this.#options;
    if (this.#fault === undefined)
      log.warn(`The predictions in ${path} cannot be written: ${reason}. What ends stays in memory until they can.`);
    this.#fault = error;
    const [all, refused] = [[...changes, ...this.#queue], new Set<string>()];
    for (const { row, waiting } of all) {
      if (row.creation !== undefined) refused.add(row.id);
      waiting?.reject(error);
    }
    this.#queue = all.filter(
      ({ row, waiting }) => waiting === undefined && !(row.runningSinceMs !== undefined && refused.has(row.id)),
    );
    if (this.#isStopped) return;
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = undefined;
      // Without changes, the commit tests whether the disk has room.
      this.#wake();
    }, RETRY_MS);
  }

  #stopRetrying(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
  }
}

function rowOf(id: string, change: Omit<Row, "id" | "atMs">): Row {
  return { id, atMs: performance.now(), ...change };
}

function largeOf(text: Text): LargeText | undefined {
  if (text.length <= MAX_INLINE_LENGTH) return undefined;
  return typeof text === "string" ? new LargeText([text]) : text;
}
