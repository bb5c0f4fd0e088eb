/** The SQLite database of predictions, on its thread: commits changes, reads predictions, evicts old outcomes. */
import type { Database, Statement } from "bun:sqlite";
import { statSync } from "node:fs";
import { codeOf } from "../../base/errors.ts";
import { isOverLimits, type RetentionLimits } from "../retention.ts";
import type { StoredWebhook } from "../webhooks/webhook.ts";
import { BatchWrite } from "./batch-write.ts";
import { moveAside } from "./damaged-files.ts";
import { prepareFolder } from "./database-lock.ts";
import { ElapsedClock } from "./elapsed-clock.ts";
import { connect, type FileOptions, MAX_LOG_BYTES, UnreadableFile } from "./prediction-schema.ts";
import { type Oldest, type Statements, statements } from "./prediction-statements.ts";
import type { Row, RowSource, StoredRecord, StoredRequest, Totals } from "./rows.ts";
import { ValueFiles } from "./value-files.ts";

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
  readonly wallMs: number;
}

export type Written = Totals & {
  /** Ids of outcomes that were not written because the database had one already, separated by spaces. */
  readonly refused: string;
};

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

export class PredictionDatabase {
  readonly #database: Database;
  readonly #options: DatabaseOptions;
  readonly #files: ValueFiles;
  readonly #clock: ElapsedClock;
  readonly #sql: Statements;
  /** Device and inode of the opened file. */
  readonly #identity: string;
  #totals: Totals;
  /** Where a damaged file was moved, and why; undefined if the file could be read. */
  readonly aside: Aside | undefined;

  /**
   * Opens the database, and creates it if it is missing.
   * @throws an error of SQLite or the disk, or an Error whose message is only the reason, such as "it is damaged"
   */
  static open(options: DatabaseOptions): PredictionDatabase {
    prepareFolder(options.path);
    const files = new ValueFiles(options.path, options.sync === "full");
    files.prepare();
    try {
      return new PredictionDatabase(connect(options), files, options);
    } catch (error) {
      if (!options.isMain || !(error instanceof UnreadableFile)) throw error;
      const path = moveAside(options.path);
      files.prepare();
      return new PredictionDatabase(connect(options), files, options, { path, reason: error.message });
    }
  }

  private constructor(database: Database, files: ValueFiles, options: DatabaseOptions, aside?: Aside) {
    this.#database = database;
    this.#options = options;
    this.#files = files;
    this.#sql = statements(database);
    this.#identity = identityOf(options.path);
    const meta = this.#meta();
    this.#totals = meta;
    this.aside = aside;
    this.#clock = new ElapsedClock(meta, options.wallMs);
    if (options.isMain) files.sweep(new Set(this.#sql.files.values().map(([file]) => String(file))));
  }

  /** Ended predictions in the database, including those of other processes. */
  get totals(): Totals {
    const { totalCount, totalBytes } = this.#meta();
    return { totalCount, totalBytes };
  }

  /** Whether the open file was deleted or replaced. Then the next process would not find the predictions. */
  get isDetached(): boolean {
    return identityOf(this.#options.path) !== this.#identity;
  }

  /** Commits all changes, or throws and changes nothing. */
  write({ rows, wallMs }: WriteBatch): Written {
    if (this.isDetached) throw new Error("its file was deleted or replaced; restart the server");
    const parsed: readonly Row[] = JSON.parse(rows);
    const { refused, staleFiles } = this.#database
      .transaction(() => {
        const { maxAgeMs, server } = this.#options;
        const before = this.#meta();
        this.#clock.follow(before.elapsedMs);
        const nowMs = this.#clock.now();
        const batch = new BatchWrite(this.#sql, before, { nowMs, maxAgeMs, server });
        for (const row of parsed) batch.write(row);
        const { files, ...totals } = this.#sweep(batch, { nowMs, limit: 2 * batch.added + 16 });
        this.#sql.setMeta.run({ ...totals, elapsedMs: nowMs, wallMs });
        this.#totals = totals;
        return { refused: batch.refused, staleFiles: [...batch.staleFiles, ...files] };
      })
      .immediate();
    for (const file of staleFiles) this.#files.removeNow(file);
    return { ...this.#totals, refused: refused.join(" ") };
  }

  get(id: string): StoredRecord | undefined {
    return this.#getEnded(id) ?? this.#sql.getUnfinished.get(id) ?? undefined;
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
          const { deadlineMs, begunAtMs, server: earlier, ...request } = found;
          const { server } = this.#options;
          const deaths = begunAtMs === null ? found.deaths : found.deaths + 1;
          if (begunAtMs !== null || earlier !== server) this.#sql.takenOver.run(deaths, server, request.row);
          const leftMs = deadlineMs - this.#clock.now();
          return { ...request, leftMs, deaths };
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

  #getEnded(id: string): StoredRecord | undefined {
    const ended = this.#sql.getEnded.get(id);
    if (ended === null) return undefined;
    const { endedMs, ...record } = ended;
    return this.#isExpired(endedMs) ? undefined : record;
  }

  #isExpired(endedMs: number): boolean {
    return this.#clock.now() - endedMs > this.#options.maxAgeMs;
  }

  /**
   * Evicts up to SWEEP_ROWS old rows in a transaction.
   * @returns whether it evicted any
   */
  #evict(): boolean {
    const [nowMs, oldest] = [this.#clock.now(), this.#sql.oldest.all(1)[0]];
    if (oldest === undefined || !this.#isOver(this.#meta(), oldest, nowMs)) return false;
    const evicted = this.#database
      .transaction(() => {
        const { wallMs, elapsedMs, ...before } = this.#meta();
        const { files, ...totals } = this.#sweep(before, { nowMs, limit: SWEEP_ROWS });
        this.#sql.setMeta.run({ ...totals, elapsedMs, wallMs });
        this.#totals = totals;
        return files;
      })
      .immediate();
    for (const file of evicted) this.#files.removeNow(file);
    return true;
  }

  #sweep(before: Totals, { nowMs, limit }: { nowMs: number; limit: number }): Totals & { files: string[] } {
    let { totalCount, totalBytes } = before;
    const files: string[] = [];
    let last = 0;
    const [first] = this.#sql.oldest.all(1);
    const candidates = first !== undefined && this.#isOver(before, first, nowMs) ? this.#sql.oldest.all(limit) : [];
    for (const old of candidates) {
      if (!this.#isOver({ totalCount, totalBytes }, old, nowMs)) break;
      totalCount -= 1;
      totalBytes -= old.bytes;
      if (old.file !== null) files.push(old.file);
      last = old.seq;
    }
    if (last > 0) this.#sql.removeUpTo.run(last);
    return { totalCount, totalBytes, files };
  }

  #isOver({ totalCount, totalBytes }: Totals, oldest: Oldest, nowMs: number): boolean {
    const ageMs = nowMs - oldest.endedMs;
    return isOverLimits(this.#options, { count: totalCount, bytes: totalBytes, ageMs });
  }

  #meta(): Totals & { elapsedMs: number; wallMs: number } {
    const meta = this.#sql.meta.get();
    if (meta === null) throw new Error("its table of totals is empty");
    return meta;
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
