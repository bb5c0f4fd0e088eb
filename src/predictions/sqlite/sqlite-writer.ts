/** Writes changes to the database: all changes of one turn of the event loop in one commit. Failed writes are repeated. */
import { OpenMap } from "../../base/collections/open-map.ts";
import { messageOf } from "../../base/errors.ts";
import { hashOf } from "../../base/id-hash.ts";
import { byteLengthOf, LargeText, type Text } from "../../base/large-text.ts";
import { log } from "../../base/log.ts";
import { Turn } from "../../base/turn.ts";
import type { CalledThread } from "../../machine/processes/called-thread.ts";
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { type EndedRecord, recordText } from "../record.ts";
import { type PredictionRequest, storedBody, storedOrigin } from "../request.ts";
import { RECORD_BYTES } from "../retention.ts";
import type { StoreOutage } from "../store.ts";
import { unwritable } from "./database-fault.ts";
import type { Row } from "./prediction-database.ts";
import type { DatabaseCalls } from "./sqlite-worker.ts";
import type { Totals } from "./statements.ts";

/** Milliseconds between runs of maintenance, which also repeat a failed write. Until then, requests are refused. */
const TEND_MS = 1000;
/** Maximum changes in a commit, and maximum bytes of their bodies and outcomes. More would delay the requests among them. */
const MAX_CHANGES = 2000;
const MAX_BYTES = 8 * 2 ** 20;

/** A row to commit. */
interface Change {
  readonly row: Row;
  /** Characters or bytes of the body or the outcome. */
  readonly bytes: number;
  /** The body or the members of the outcome. */
  readonly text?: Text | undefined;
  readonly end?: EndedRecord;
  /** Settles after the commit. */
  readonly waiting?: PromiseWithResolvers<void>;
}

export interface WriterOptions {
  readonly path: string;
  readonly thread: CalledThread<DatabaseCalls>;
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
  /** Why the last write has failed; undefined while writing works. */
  #fault: Error | undefined;
  /** Whether the write that has failed waits for the next run of maintenance. */
  #isPaused = false;
  /** Whether the file was deleted or replaced. */
  #isDetached = false;
  #timer = setTimeout(() => this.#tend(), TEND_MS);
  #isStopped = false;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#charge = options.memory?.add("outputs", 0);
  }

  get outage(): StoreOutage | undefined {
    if (this.#isDetached) return "store";
    return this.#fault === undefined ? undefined : "disk";
  }

  /** Writes a request. Resolves after the commit. @throws SconceError `predictions_unwritable` */
  create(request: PredictionRequest): Promise<void> {
    const error = this.#isStopped ? unwritable("it is closed") : this.#fault;
    if (error !== undefined) return Promise.reject(error);
    const waiting = Promise.withResolvers<void>();
    const { id, timeoutMs, model, origin } = request;
    const body = storedBody(request);
    const text = typeof body === "string" ? body : new LargeText([body]);
    const facts = { origin: storedOrigin(origin), model: model?.reference, body: undefined };
    const head = JSON.stringify({ ...request, ...facts });
    this.add({ id, request: { head, timeoutMs } }, { text, bytes: body.length, waiting });
    return waiting.promise;
  }

  /** Writes an outcome, and removes the request. The first outcome of an id stands. */
  end(end: EndedRecord): void {
    if (this.#isStopped || this.find(end.id) !== undefined) return;
    const { members } = end.outcome;
    const bytes = RECORD_BYTES + byteLengthOf(members) + Buffer.byteLength(end.logs);
    this.#charge?.grow(bytes);
    const row = { id: end.id, end: { head: recordText(end), bytes } };
    this.#ends.set(end.id, this.add(row, { end, text: members, bytes }));
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
      this.#isPaused = false;
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
    clearTimeout(this.#timer);
  }

  /** Writes a change with the next commit. */
  add(row: Row, change: Partial<Change> = {}): Change {
    const added = { bytes: 0, ...change, row };
    if (this.#isStopped) return added;
    this.#queue.push(added);
    this.#wake();
    return added;
  }

  #wake(): void {
    if (!this.#isPaused) this.#commit ??= this.#write();
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
    const texts: (string | Uint8Array[])[] = [];
    const owned: ArrayBuffer[] = [];
    for (const { text } of changes) {
      if (typeof text === "string") texts.push(text);
      if (!(text instanceof LargeText)) continue;
      const pieces: Uint8Array[] = [];
      texts.push(pieces);
      for (let i = 0, piece = text.bytes(0); piece !== undefined; piece = text.bytes(++i)) {
        if (turn.isOver) await turn.next();
        // A copy: a message with a view would copy its whole buffer.
        const copy = piece.slice();
        pieces.push(copy);
        owned.push(copy.buffer);
      }
    }
    const rows = JSON.stringify(changes.map(({ row }) => row));
    this.totals = await thread.call("write", { rows, texts, wallMs: wallClock() }, owned);
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
      if (row.request !== undefined) refused.add(row.id);
      waiting?.reject(error);
    }
    this.#queue = all.filter(
      ({ row, waiting }) => waiting === undefined && !(row.runningSinceMs !== undefined && refused.has(row.id)),
    );
    this.#isPaused = true;
  }

  /** Repeats a failed write. Without changes, the commit tests whether the disk has room. Never rejects. */
  async #tend(): Promise<void> {
    const { path, thread } = this.#options;
    this.#isPaused = false;
    if (this.#fault !== undefined) this.#wake();
    const tended = await thread.call("tend", undefined).catch(() => undefined);
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => this.#tend(), TEND_MS);
    if (tended === undefined) return;
    this.totals = tended.totals;
    if (tended.isDetached && !this.#isDetached)
      log.error(`The predictions in ${path} were deleted or replaced: the server accepts no others; restart it`);
    this.#isDetached = tended.isDetached;
  }
}
