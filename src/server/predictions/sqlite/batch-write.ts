/** Writes one batch of rows in a transaction, and updates the totals. */
import type { Totals } from "./prediction-database.ts";
import type { Statements } from "./prediction-statements.ts";
import type { CreateRow, EndRow, Pack, Row } from "./row-text.ts";

interface Retention {
  /** On the clock of the database. */
  readonly nowMs: number;
  readonly maxAgeMs: number;
}

export class BatchWrite implements Totals {
  readonly #sql: Statements;
  readonly #retention: Retention;
  totalCount: number;
  totalBytes: number;
  /** Added rows of outcomes, and packs. */
  added = 0;
  /** Ids of second outcomes. */
  readonly refused: string[] = [];
  /** Files to remove after the commit. */
  readonly staleFiles: string[] = [];

  /** @param before totals without the batch */
  constructor(sql: Statements, before: Totals, retention: Retention) {
    this.#sql = sql;
    this.#retention = retention;
    this.totalCount = before.totalCount;
    this.totalBytes = before.totalBytes;
  }

  write(row: Row): void {
    if (row.op === "create") this.#create(row);
    else if (row.op === "begun") this.#sql.begun.run(row.begunAtMs, row.id);
    else this.#removeUnfinished(row.id);
    if (row.op === "end") this.#end(row);
  }

  writePack(pack: Pack): void {
    this.#sql.addPack.run({ ...pack, writtenMs: this.#retention.nowMs });
    this.#add(pack.packCount, pack.packBytes);
  }

  #create(row: CreateRow): void {
    const deadlineMs = this.#retention.nowMs - row.ageMs + row.timeoutMs;
    const insert = () => this.#sql.create.run({ ...row, deadlineMs }).changes > 0;
    if (!insert() && !(this.#removeExpired(row.id) && insert())) this.#discard(row.file);
  }

  #end(row: EndRow): void {
    const endedMs = this.#retention.nowMs - row.ageMs;
    const insert = () => this.#sql.end.run({ ...row, endedMs }).changes > 0;
    if (insert() || (this.#removeExpired(row.id) && insert())) {
      this.#add(1, row.bytes);
      return;
    }
    this.refused.push(row.id);
    this.#discard(row.file);
  }

  /**
   * Removes an expired outcome that retention has not evicted yet: its id is free again. Called only when an insert fails, so that new ids cost
   * nothing.
   */
  #removeExpired(id: string): boolean {
    const { nowMs, maxAgeMs } = this.#retention;
    const removed = this.#sql.removeExpired.get(id, nowMs, maxAgeMs);
    if (removed === null) return false;
    this.totalCount -= 1;
    this.totalBytes -= removed.bytes;
    this.#discard(removed.file);
    return true;
  }

  #removeUnfinished(id: string): void {
    this.#discard(this.#sql.removeUnfinished.get(id)?.file ?? null);
  }

  #discard(file: string | null): void {
    if (file !== null) this.staleFiles.push(file);
  }

  #add(count: number, bytes: number): void {
    this.added += 1;
    this.totalCount += count;
    this.totalBytes += bytes;
  }
}
