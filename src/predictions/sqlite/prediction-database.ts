/** The SQLite database of predictions, on its thread: commits changes, reads predictions, evicts old outcomes. */
import type { Database } from "bun:sqlite";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { isOverLimits, type RetentionLimits } from "../retention.ts";
import { connect, type FileOptions } from "./prediction-schema.ts";
import {
  type Meta,
  type Oldest,
  type Statements,
  type StoredRecord,
  type StoredRequest,
  type StoredText,
  statements,
  type Totals,
  type UnfinishedRow,
  type WebhookRow,
} from "./statements.ts";

export interface DatabaseOptions extends RetentionLimits, FileOptions {
  /** Name of this process's server, which is stored with its requests. */
  readonly server: string;
  /** Wall-clock time in milliseconds since 1970. */
  readonly wallMs: number;
}

/** A change of one prediction. Exactly one member beside `id` is set. */
export interface Row {
  readonly id: string;
  /** A request whose body is in `WriteBatch.texts`. */
  readonly request?: { readonly head: string; readonly timeoutMs: number };
  /** Start in milliseconds since 1970; null for a request that stops because the process exits. */
  readonly runningSinceMs?: number | null;
  /** Number of deaths of processes that ran the request, which now belongs to this process. */
  readonly takenOver?: number;
  /** An outcome whose members are in `WriteBatch.texts`. */
  readonly end?: { readonly head: string; readonly bytes: number };
  /** Time of creation of the prediction whose webhook has no message left. */
  readonly removedWebhook?: number;
}

/** Changes for one transaction. */
export interface WriteBatch {
  /** JSON list of `Row`: sending as many objects takes far more time. */
  readonly rows: string;
  /**
   * The bodies and the members of outcomes, in the order of their rows; a large one as pieces of UTF-8. In the JSON of
   * the rows, they would be escaped and parsed once more.
   */
  readonly texts: readonly (string | readonly Uint8Array[])[];
  readonly wallMs: number;
}

/** The state of the database after maintenance. */
export interface Tended {
  readonly totals: Totals;
  /** Whether the open file was deleted or replaced. Then the next process would not find the predictions. */
  readonly isDetached: boolean;
}

/** Maximum rows that a run of maintenance evicts. */
const SWEEP_ROWS = 2048;
/** Content of a test file, which shows whether a full disk has room again. */
const PROBE = new Uint8Array(64 * 1024);

export class PredictionDatabase {
  readonly #database: Database;
  readonly #options: DatabaseOptions;
  readonly #sql: Statements;
  /** Device and inode of the opened file. */
  readonly #identity: string;
  /**
   * Time of the database's clock at 0 of `performance.now()`. The clock advances with the monotonic clock, and across
   * a restart with the wall clock, but never back.
   */
  #startMs: number;

  /**
   * Opens the database, and creates it if it is missing.
   * @throws an error of SQLite or the disk, or an Error whose message is only the reason, such as "it is damaged"
   */
  constructor(options: DatabaseOptions) {
    const database = connect(options);
    this.#database = database;
    this.#options = options;
    this.#sql = statements(database);
    this.#identity = identityOf(options.path);
    const { elapsedMs, wallMs } = this.#meta();
    this.#startMs = elapsedMs + Math.max(0, options.wallMs - wallMs) - performance.now();
  }

  /** Ended predictions in the database, including those of other processes. */
  get totals(): Totals {
    const { count, bytes } = this.#meta();
    return { count, bytes };
  }

  /** Commits all changes, or throws and changes nothing. Without changes, tests whether the disk has room. */
  write({ rows, texts, wallMs }: WriteBatch): Totals {
    if (this.#isDetached) throw new Error("its file was deleted or replaced; restart the server");
    const parsed: readonly Row[] = JSON.parse(rows);
    if (parsed.length === 0) this.#probe();
    const remaining = texts[Symbol.iterator]();
    return this.#database
      .transaction(() => {
        const totals = this.totals;
        // Another process may have written a later time.
        this.#startMs = Math.max(this.#startMs, this.#meta().elapsedMs - performance.now());
        const nowMs = this.#nowMs;
        const before = totals.count;
        for (const row of parsed) {
          this.#writeRow(row, { texts: remaining, nowMs, totals });
        }
        this.#sweep(totals, { nowMs, limit: 2 * Math.max(0, totals.count - before) + 16 });
        this.#sql.setMeta.run({ ...totals, elapsedMs: nowMs, wallMs });
        return totals;
      })
      .immediate();
  }

  get(id: string): StoredRecord | undefined {
    const ended = this.#sql.getEnded.get(id);
    const isReadable = ended !== null && this.#nowMs - ended.endedMs <= this.#options.maxAgeMs;
    return (isReadable ? ended : this.#sql.getUnfinished.get(id)) ?? undefined;
  }

  /** All unfinished predictions, oldest first. */
  unfinished(): readonly UnfinishedRow[] {
    return this.#sql.unfinished.all();
  }

  /** An unfinished prediction, which this process will run; undefined if it has ended. */
  request(row: number): StoredRequest | undefined {
    return this.#sql.request.get(this.#nowMs, row) ?? undefined;
  }

  webhooks(): readonly WebhookRow[] {
    return this.#sql.webhooks.all();
  }

  /** Evicts old outcomes, also while no predictions arrive. Later rows use their place in the file. */
  tend(): Tended {
    const tend = this.#database.transaction(() => {
      const meta = this.#meta();
      if (this.#sweep(meta, { nowMs: this.#nowMs, limit: SWEEP_ROWS })) this.#sql.setMeta.run(meta);
    });
    try {
      tend.deferred();
    } catch {
      // Maintenance runs again later, and the next write reports a full disk.
    }
    return { totals: this.totals, isDetached: this.#isDetached };
  }

  close(): void {
    // An open statement would keep the file open, and SQLite would not remove the write-ahead log.
    for (const statement of Object.values(this.#sql)) statement.finalize();
    this.#database.close(true);
  }

  get #isDetached(): boolean {
    return identityOf(this.#options.path) !== this.#identity;
  }

  get #nowMs(): number {
    return this.#startMs + performance.now();
  }

  /** @param context.texts the bodies and outcomes of this row and of later rows */
  #writeRow(
    { id, request, runningSinceMs, takenOver, end, removedWebhook }: Row,
    { texts, nowMs, totals }: { texts: Iterator<WriteBatch["texts"][number]>; nowMs: number; totals: Totals },
  ): void {
    const { maxAgeMs, server } = this.#options;
    if (request !== undefined) {
      const { head, timeoutMs } = request;
      this.#sql.create.run({ id, deadlineMs: nowMs + timeoutMs, server, head, body: storedText(texts) });
    }
    if (runningSinceMs !== undefined) this.#sql.started.run(runningSinceMs, id);
    if (takenOver !== undefined) this.#sql.takenOver.run(takenOver, server, id);
    if (end !== undefined) {
      // An expired outcome, which is not evicted yet, makes room for an outcome with the same id.
      const expired = this.#sql.removeExpired.get(id, nowMs, maxAgeMs);
      const { head, bytes } = end;
      const added = this.#sql.end.run({ id, bytes, endedMs: nowMs, head, members: storedText(texts) });
      const isAdded = added.changes > 0;
      this.#sql.removeUnfinished.run(id);
      totals.count += Number(isAdded) - Number(expired !== null);
      totals.bytes += (isAdded ? bytes : 0) - (expired?.bytes ?? 0);
    }
    if (removedWebhook !== undefined) this.#sql.removeWebhook.run(id, removedWebhook);
  }

  /**
   * Removes the oldest outcomes beyond the limits of retention, at most `limit`, and subtracts the outcomes from the totals.
   * @returns whether it removed any
   */
  #sweep(totals: Totals, { nowMs, limit }: { readonly nowMs: number; readonly limit: number }): boolean {
    const isOver = ({ endedMs }: Oldest) => isOverLimits(this.#options, { ...totals, ageMs: nowMs - endedMs });
    const [first] = this.#sql.oldest.all(1);
    if (first === undefined || !isOver(first)) return false;
    let last = 0;
    for (const old of this.#sql.oldest.all(limit)) {
      if (!isOver(old)) break;
      totals.count -= 1;
      totals.bytes -= old.bytes;
      last = old.seq;
    }
    this.#sql.removeUpTo.run(last);
    return true;
  }

  #meta(): Meta {
    const meta = this.#sql.meta.get();
    if (meta === null) throw new Error("its table of totals is empty");
    return meta;
  }

  #probe(): void {
    const path = `${this.#options.path}-probe`;
    try {
      writeFileSync(path, PROBE);
    } finally {
      rmSync(path, { force: true });
    }
  }
}

/** Device and inode of a file; empty if it is missing. */
function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.dev}:${found.ino}`;
}

/** The next text, as the database stores it. */
function storedText(texts: Iterator<WriteBatch["texts"][number]>): StoredText {
  const { value = "" } = texts.next();
  return typeof value === "string" ? value : Buffer.concat(value);
}
