/** The database of predictions, on the thread that has it: commits batches, reads, and forgets what retention no longer allows. */
import type { Database, Statement } from "bun:sqlite";
import { statSync } from "node:fs";
import { SconceError } from "../../../base/errors.ts";
import type { KeptWebhook } from "../../webhooks/webhook-store.ts";
import { secondOf } from "../ids.ts";
import { BatchWrite } from "./batch-write.ts";
import { databaseFault } from "./database-fault.ts";
import { prepareFolder } from "./database-lock.ts";
import { ElapsedClock } from "./elapsed-clock.ts";
import { KeptFiles } from "./kept-files.ts";
import { committedFrames } from "./log-commits.ts";
import { connect, MAX_LOG_BYTES } from "./prediction-connection.ts";
import { unusable } from "./prediction-schema.ts";
import { type Oldest, type Statements, statements } from "./prediction-statements.ts";
import type { Row } from "./sqlite-batch.ts";
import type {
  KeepWebhooksMessage,
  OpenMessage,
  Owners,
  StoredRecord,
  StoredRequest,
  TakeMessage,
  ToldPack,
  Totals,
  Written,
} from "./sqlite-messages.ts";
import { findInPack } from "./told-pack.ts";

const PAGE_BYTES = 4096;
/** Rows that are removed in one transaction beyond those that were added. */
const SWEEP_ROWS = 256;
/** Free pages that are given back to the disk at a time, and that are kept for what comes. */
const VACUUM_PAGES = 512;
const SPARE_PAGES = 1024;

/** The fault of a write to a file that was deleted or replaced. */
const goneFault = "its file was deleted or replaced; restart the server";

export class PredictionDatabase {
  readonly #database: Database;
  readonly #limits: OpenMessage;
  readonly #files: KeptFiles;
  readonly #clock: ElapsedClock;
  readonly #sql: Statements;
  /** The file that is open, by device and inode. */
  readonly #identity: string;
  #totals: Totals;
  /** Whether SQLite ignored commits of the write-ahead log. */
  readonly isLogDamaged: boolean;

  /** @throws SconceError `predictions_unusable` */
  static open(options: OpenMessage): PredictionDatabase {
    const { path } = options;
    try {
      prepareFolder(path);
      const files = new KeptFiles(path, options.sync === "full");
      files.prepare();
      // Only the first process of a server finds the log at rest.
      const committed = options.isMain ? committedFrames(path) : 0;
      return new PredictionDatabase(connect(options), files, { ...options, committed });
    } catch (error) {
      throw error instanceof SconceError ? error : unusable(path, databaseFault(error), error);
    }
  }

  private constructor(database: Database, files: KeptFiles, options: OpenMessage & { readonly committed: number }) {
    this.#database = database;
    this.#limits = options;
    this.#files = files;
    this.#sql = statements(database);
    this.#identity = identityOf(options.path);
    const meta = this.#meta();
    this.#totals = meta;
    this.isLogDamaged = options.committed > 0 && this.#log("NOOP").log < options.committed;
    this.#clock = new ElapsedClock(meta, options.wallMs);
    if (options.isMain) files.sweep(new Set(this.#sql.files.values().map(([file]) => String(file))));
  }

  /** Of all processes. */
  get totals(): Totals {
    const { totalCount, totalBytes } = this.#meta();
    return { totalCount, totalBytes };
  }

  /** Whether the path leads to another file than the open one, or to none: a process after this one would find nothing. */
  get isGone(): boolean {
    return identityOf(this.#limits.path) !== this.#identity;
  }

  /** Commits all of it or nothing. */
  write(rows: Iterable<Row>, told: ToldPack, wallMs: number): Written {
    if (this.isGone) throw new Error(goneFault);
    const { refused, gone } = this.#database
      .transaction(() => {
        const before = this.#meta();
        this.#clock.follow(before.elapsedMs);
        const nowMs = this.#clock.now();
        const batch = new BatchWrite(this.#sql, before, { nowMs, maxAgeMs: this.#limits.maxAgeMs });
        for (const row of rows) batch.write(row);
        if (told.toldCount > 0) batch.tell(told);
        const swept = this.#sweep(batch, { nowMs, limit: 2 * batch.added + 16 });
        this.#sql.setMeta.run(swept.totalCount, swept.totalBytes, nowMs, wallMs);
        this.#totals = swept;
        return { refused: batch.refused, gone: [...batch.gone, ...swept.files] };
      })
      .immediate();
    for (const file of gone) this.#files.removeNow(file);
    return { totalCount: this.#totals.totalCount, totalBytes: this.#totals.totalBytes, refused: refused.join(" ") };
  }

  get(id: string): StoredRecord | undefined {
    return this.#getEnded(id) ?? this.#sql.getUnfinished.get(id) ?? this.#getTold(id);
  }

  #getEnded(id: string): StoredRecord | undefined {
    const ended = this.#sql.getEnded.get(id);
    if (ended === null) return undefined;
    const { endedMs, ...record } = ended;
    return this.#isOld(endedMs) ? undefined : record;
  }

  /** Retention forgets a pack as a whole: an old outcome may lie in one pack, and a new one with the same id in another. */
  #getTold(id: string): StoredRecord | undefined {
    for (const pack of this.#sql.getTold.all(secondOf(id), `${id} `)) {
      const row = findInPack(pack, id);
      if (row !== undefined && !this.#isOld(pack.writtenMs - row.ageMs)) return row;
    }
    return undefined;
  }

  #isOld(endedMs: number): boolean {
    return this.#clock.now() - endedMs > this.#limits.maxAgeMs;
  }

  owners(): Owners {
    const owners = this.#sql.owners.values().map(([owner]) => String(owner));
    return { owners: owners.join(""), upTo: this.#sql.newest.get()?.seq ?? 0 };
  }

  take({ owners, after, upTo }: TakeMessage): StoredRequest | undefined {
    return this.#database
      .transaction(() => {
        const taken = this.#sql.oldestOf.get(after, upTo, owners);
        if (taken === null) return undefined;
        const { deadlineMs, begunAtMs, deaths, ...request } = taken;
        if (begunAtMs !== null) this.#sql.died.run(request.row);
        const leftMs = deadlineMs - this.#clock.now();
        return { ...request, leftMs, deaths: begunAtMs === null ? deaths : deaths + 1 };
      })
      .immediate();
  }

  keepWebhooks({ kept, forgotten }: Pick<KeepWebhooksMessage, "kept" | "forgotten">): void {
    this.#database
      .transaction(() => {
        this.#sql.forgetWebhooks.run(forgotten);
        this.#sql.keepWebhooks.run(kept);
      })
      .immediate();
  }

  webhooks(): readonly KeptWebhook[] {
    return this.#sql.webhooks.all();
  }

  /** Copies a write-ahead log that has grown large into the database. */
  checkLog(): void {
    const { log, checkpointed } = this.#log("NOOP");
    if ((log - checkpointed) * PAGE_BYTES < MAX_LOG_BYTES) return;
    // While other processes write all the time the log can be begun anew only by making them wait.
    this.#log(log * PAGE_BYTES > 4 * MAX_LOG_BYTES ? "RESTART" : "PASSIVE");
  }

  /** One short step of what can wait until there is nothing else to do; true when there is more. */
  tend(): boolean {
    if (this.#forget()) return true;
    const { log, checkpointed } = this.#log("NOOP");
    if (log > checkpointed) this.#log("PASSIVE");
    const free = this.#pragma("freelist_count");
    if (free <= Math.max(SPARE_PAGES, this.#pragma("page_count") / 4)) return false;
    this.#database.run(`PRAGMA incremental_vacuum(${VACUUM_PAGES})`);
    return true;
  }

  close(): void {
    // While it has a statement, SQLite keeps the file open and the log beside it.
    for (const statement of Object.values(this.#sql)) statement.finalize();
    this.#database.close(true);
  }

  /** One transaction in which retention alone is seen to; true when there is more of it. */
  #forget(): boolean {
    const [nowMs, oldest] = [this.#clock.now(), this.#oldest(1)[0]];
    if (oldest === undefined || !this.#isOver(this.#meta(), oldest, nowMs)) return false;
    const { files } = this.#database
      .transaction(() => {
        const { wallMs, elapsedMs, ...before } = this.#meta();
        const swept = this.#sweep(before, { nowMs, limit: SWEEP_ROWS });
        this.#sql.setMeta.run(swept.totalCount, swept.totalBytes, elapsedMs, wallMs);
        this.#totals = swept;
        return swept;
      })
      .immediate();
    for (const file of files) this.#files.removeNow(file);
    return true;
  }

  #sweep(before: Totals, { nowMs, limit }: { nowMs: number; limit: number }): Totals & { files: string[] } {
    let { totalCount, totalBytes } = before;
    const files: string[] = [];
    const last = { row: 0, pack: 0 };
    const [first] = this.#oldest(1);
    const candidates = first !== undefined && this.#isOver(before, first, nowMs) ? this.#oldest(limit) : [];
    for (const old of candidates) {
      if (!this.#isOver({ totalCount, totalBytes }, old, nowMs)) break;
      totalCount -= old.count;
      totalBytes -= old.bytes;
      if (old.file !== null) files.push(old.file);
      last[old.isPack ? "pack" : "row"] = old.seq;
    }
    if (last.row > 0) this.#sql.removeUpTo.run(last.row);
    if (last.pack > 0) this.#sql.removeToldUpTo.run(last.pack);
    return { totalCount, totalBytes, files };
  }

  /** Rows and packs from the oldest on, each kind in the order of its table. */
  #oldest(limit: number): (Oldest & { isPack: boolean })[] {
    const rows = this.#sql.oldest.all(limit);
    const packs = this.#sql.oldestTold.all(limit);
    const merged: (Oldest & { isPack: boolean })[] = [];
    for (let [row, pack] = [0, 0]; merged.length < limit; ) {
      const [ended, told] = [rows[row], packs[pack]];
      const isPack = ended === undefined || (told !== undefined && told.endedMs < ended.endedMs);
      const oldest = isPack ? told : ended;
      if (oldest === undefined) break;
      merged.push({ ...oldest, isPack });
      if (isPack) pack += 1;
      else row += 1;
    }
    return merged;
  }

  #isOver({ totalCount, totalBytes }: Totals, oldest: { endedMs: number }, nowMs: number): boolean {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    return totalCount > maxCount || (totalBytes > maxBytes && totalCount > 1) || nowMs - oldest.endedMs > maxAgeMs;
  }

  #meta(): Totals & { elapsedMs: number; wallMs: number } {
    const meta = this.#sql.meta.get();
    if (meta === null) throw new Error("its table of totals is empty");
    return meta;
  }

  #log(mode: "NOOP" | "PASSIVE" | "RESTART"): { log: number; checkpointed: number } {
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

/** The device and inode of a path; empty where there is no file. */
function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.dev}:${found.ino}`;
}
