/** The SQLite database of predictions, on its thread: commits changes, reads predictions, evicts old outcomes. */
import type { Database, Statement } from "bun:sqlite";
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { codeOf } from "../../base/errors.ts";
import { isOverLimits, type RetentionLimits } from "../retention.ts";
import type { StoredWebhook } from "../webhooks/webhook.ts";
import { prepareFolder } from "./database-lock.ts";
import { connect, type FileOptions, MAX_LOG_BYTES, UnreadableFile } from "./prediction-schema.ts";
import type { Row, RowSource, StoredRecord, StoredRequest, Totals } from "./rows.ts";
import { type Meta, type Oldest, type Statements, statements } from "./statements.ts";

export interface DatabaseOptions extends RetentionLimits, FileOptions {
  /** Name of this process's server, which is stored with its requests. */
  readonly server: string;
  /** Wall-clock time in milliseconds since 1970. */
  readonly wallMs: number;
}

/** Changes for one transaction. */
export interface WriteBatch {
  /** JSON list of `Row`. */
  readonly rows: string;
  /** Time now on the clock of `atMs` in the rows. */
  readonly nowMs: number;
  readonly wallMs: number;
}

interface RowContext {
  /** Pieces of this row and of later ones. */
  readonly pieces: Uint8Array[];
  /** Time on the clock of the database: now, and of the change. */
  readonly nowMs: number;
  readonly changedMs: number;
  readonly totals: Totals;
}

export interface Sources {
  readonly sources: readonly RowSource[];
  /** Row number of the newest unfinished prediction, to exclude later ones. */
  readonly upTo: number;
}

/** Selects unfinished predictions with these sources, and row numbers above `after` and up to `upTo`. */
export interface Selection {
  /** Concatenated sources, each as `OWNER SERVER,`. */
  readonly sources: string;
  readonly after: number;
  readonly upTo: number;
}

/** A file that the server could not read, and has moved. */
export interface Aside {
  /** Where the file is now. */
  readonly path: string;
  /** Why, in words that continue a sentence, such as "it is damaged". */
  readonly reason: string;
}

const PAGE_BYTES = 4096;
/** Maximum rows that a step of maintenance evicts. */
const SWEEP_ROWS = 256;
/** Maximum free pages that a step of maintenance returns to the disk. */
const VACUUM_PAGES = 512;
/** Minimum number of free pages that the file keeps for later rows. A large file keeps a quarter of its pages. */
const SPARE_PAGES = 1024;
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
  /** Where a damaged file was moved, and why; undefined if the file could be read. */
  readonly aside: Aside | undefined;

  /**
   * Opens the database, and creates it if it is missing.
   * @throws an error of SQLite or the disk, or an Error whose message is only the reason, such as "it is damaged"
   */
  static open(options: DatabaseOptions): PredictionDatabase {
    prepareFolder(options.path);
    try {
      return new PredictionDatabase(connect(options), options);
    } catch (error) {
      if (!options.isMain || !(error instanceof UnreadableFile)) throw error;
      const aside = { path: moveAside(options.path), reason: error.message };
      return new PredictionDatabase(connect(options), options, aside);
    }
  }

  private constructor(database: Database, options: DatabaseOptions, aside?: Aside) {
    this.#database = database;
    this.#options = options;
    this.#sql = statements(database);
    this.#identity = identityOf(options.path);
    this.aside = aside;
    const { elapsedMs, wallMs } = this.#meta();
    this.#startMs = elapsedMs + Math.max(0, options.wallMs - wallMs) - performance.now();
  }

  /** Ended predictions in the database, including those of other processes. */
  get totals(): Totals {
    const { count, bytes } = this.#meta();
    return { count, bytes };
  }

  /** Whether the open file was deleted or replaced. Then the next process would not find the predictions. */
  get isDetached(): boolean {
    return identityOf(this.#options.path) !== this.#identity;
  }

  /**
   * Commits all changes, or throws and changes nothing. Without changes, tests whether the disk has room.
   * @param pieces the large bodies and outcomes of the rows, in the order of the rows
   */
  write({ rows, nowMs: sentMs, wallMs }: WriteBatch, pieces: Uint8Array[] = []): Totals {
    if (this.isDetached) throw new Error("its file was deleted or replaced; restart the server");
    const parsed: readonly Row[] = JSON.parse(rows);
    if (parsed.length === 0) this.#probe();
    return this.#database
      .transaction(() => {
        const totals = this.totals;
        // Another process may have written a later time.
        this.#startMs = Math.max(this.#startMs, this.#meta().elapsedMs - performance.now());
        const nowMs = this.#nowMs;
        const before = totals.count;
        for (const row of parsed) this.#writeRow(row, { pieces, nowMs, changedMs: nowMs - sentMs + row.atMs, totals });
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

  sources(): Sources {
    return { sources: this.#sql.sources.all(), upTo: this.#sql.newest.get()?.seq ?? 0 };
  }

  /**
   * Takes over the next unfinished prediction of the selection. If it was running, counts that its process died.
   * @returns undefined if there is none; "full" if the disk has no room for the change
   */
  takeOver({ sources, after, upTo }: Selection): StoredRequest | "full" | undefined {
    try {
      return this.#database
        .transaction(() => {
          const found = this.#sql.oldestUnfinished.get(after, upTo, sources);
          if (found === null) return undefined;
          const { deadlineMs, runningSinceMs, server: earlier, ...request } = found;
          const { server } = this.#options;
          const deaths = runningSinceMs === null ? found.deaths : found.deaths + 1;
          if (runningSinceMs !== null || earlier !== server) this.#sql.takenOver.run(deaths, server, request.row);
          return { ...request, leftMs: deadlineMs - this.#nowMs, deaths };
        })
        .immediate();
    } catch (error) {
      if (codeOf(error) === "SQLITE_FULL") return "full";
      throw error;
    }
  }

  webhooks(): readonly StoredWebhook[] {
    return this.#sql.webhooks.all();
  }

  /** Copies the write-ahead log into the database if the log is large. */
  checkLog(): void {
    const { log, checkpointed } = this.#checkpoint("NOOP");
    if ((log - checkpointed) * PAGE_BYTES < MAX_LOG_BYTES) return;
    // PASSIVE never empties a log that other processes keep in use. RESTART does, but makes writers wait.
    this.#checkpoint(log * PAGE_BYTES > 4 * MAX_LOG_BYTES ? "RESTART" : "PASSIVE");
  }

  /**
   * Runs a short step of maintenance on an idle thread.
   * @returns whether more steps are due
   */
  tend(): boolean {
    if (this.#evict()) return true;
    const { log, checkpointed } = this.#checkpoint("NOOP");
    if (log > checkpointed) this.#checkpoint("PASSIVE");
    const free = this.#pragma("freelist_count");
    if (free <= Math.max(SPARE_PAGES, this.#pragma("page_count") / 4)) return false;
    this.#database.run(`PRAGMA incremental_vacuum(${VACUUM_PAGES})`);
    return true;
  }

  close(): void {
    // An open statement would keep the file open, and SQLite would not remove the write-ahead log.
    for (const statement of Object.values(this.#sql)) statement.finalize();
    this.#database.close(true);
  }

  get #nowMs(): number {
    return this.#startMs + performance.now();
  }

  #writeRow(row: Row, { pieces, nowMs, changedMs, totals }: RowContext): void {
    const { id, creation, runningSinceMs, end, webhook } = row;
    const { maxAgeMs, server } = this.#options;
    const large = row.pieces === undefined ? undefined : Buffer.concat(pieces.splice(0, row.pieces));
    if (creation !== undefined) {
      const deadlineMs = changedMs + creation.timeoutMs;
      this.#sql.create.run({ ...creation, id, deadlineMs, server, body: large ?? creation.body });
    }
    if (runningSinceMs !== undefined) this.#sql.started.run(runningSinceMs, id);
    if (end !== undefined) {
      this.#sql.removeUnfinished.run(id);
      // An expired outcome, which is not evicted yet, makes room for an outcome with the same id.
      const expired = this.#sql.removeExpired.get(id, nowMs, maxAgeMs);
      const members = large ?? end.members;
      const isAdded = this.#sql.end.run({ ...end, id, members, endedMs: changedMs }).changes > 0;
      totals.count += Number(isAdded) - Number(expired !== null);
      totals.bytes += (isAdded ? end.bytes : 0) - (expired?.bytes ?? 0);
    }
    if (webhook === null) this.#sql.removeWebhook.run(id);
    else if (webhook !== undefined) this.#sql.addWebhook.run(id, webhook);
  }

  /** Evicts up to SWEEP_ROWS old rows in a transaction. @returns whether it evicted any */
  #evict(): boolean {
    return this.#database
      .transaction(() => {
        const meta = this.#meta();
        if (!this.#sweep(meta, { nowMs: this.#nowMs, limit: SWEEP_ROWS })) return false;
        this.#sql.setMeta.run(meta);
        return true;
      })
      .deferred();
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

  #checkpoint(mode: "NOOP" | "PASSIVE" | "RESTART"): { log: number; checkpointed: number } {
    const checkpoint: Statement<{ log: number; checkpointed: number }, []> = this.#database.query(
      `PRAGMA wal_checkpoint(${mode})`,
    );
    return checkpoint.get() ?? { log: 0, checkpointed: 0 };
  }

  #pragma(name: string): number {
    const [[value] = []] = this.#database.query(`PRAGMA ${name}`).values();
    return Number(value);
  }
}

/** Device and inode of a file; empty if it is missing. */
function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.dev}:${found.ino}`;
}

/** Moves a database that cannot be read, and its write-ahead log. @returns the new path of the database */
function moveAside(path: string): string {
  const aside = `${path}.damaged-${new Date().toISOString().replaceAll(/[^\dT]/g, "")}`;
  for (const suffix of ["", "-wal"]) if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  return aside;
}
