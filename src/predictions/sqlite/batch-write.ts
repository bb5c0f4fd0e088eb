/** Writes a batch of changes within a transaction, and counts the retained predictions. */
import type { Statements } from "./prediction-statements.ts";
import type { CreateRow, EndRow, Row, Totals } from "./rows.ts";

interface WriteOptions {
  /** Time on the clock of the database, in milliseconds. */
  readonly nowMs: number;
  readonly maxAgeMs: number;
  /** Name of the server, which is stored with each request. */
  readonly server: string;
}

export class BatchWrite implements Totals {
  readonly #sql: Statements;
  readonly #options: WriteOptions;
  totalCount: number;
  totalBytes: number;
  /** Number of outcomes that the batch has added. */
  added = 0;
  /** Ids whose outcome was not written, because the database had an outcome already. */
  readonly refused: string[] = [];
  /** Files that no row needs any more. The caller removes them after the commit. */
  readonly staleFiles: string[] = [];

  constructor(sql: Statements, before: Totals, options: WriteOptions) {
    this.#sql = sql;
    this.#options = options;
    this.totalCount = before.totalCount;
    this.totalBytes = before.totalBytes;
  }

  write(row: Row): void {
    if (row.op === "create") this.#create(row);
    else if (row.op === "begun") this.#sql.begun.run(row.begunAtMs, row.id);
    else this.#removeUnfinished(row.id);
    if (row.op === "end") this.#end(row);
  }

  #create(row: CreateRow): void {
    const deadlineMs = this.#options.nowMs - row.ageMs + row.timeoutMs;
    const insert = () => this.#sql.create.run({ ...row, deadlineMs, server: this.#options.server }).changes > 0;
    if (!insert() && !(this.#removeExpired(row.id) && insert())) this.#discard(row.file);
  }

  #end(row: EndRow): void {
    const endedMs = this.#options.nowMs - row.ageMs;
    const insert = () => this.#sql.end.run({ ...row, endedMs }).changes > 0;
    if (insert() || (this.#removeExpired(row.id) && insert())) {
      this.added += 1;
      this.totalCount += 1;
      this.totalBytes += row.bytes;
      return;
    }
    this.refused.push(row.id);
    this.#discard(row.file);
  }

  /** Removes an expired outcome, so that its id can be used again. Called only after a failed insertion. */
  #removeExpired(id: string): boolean {
    const { nowMs, maxAgeMs } = this.#options;
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
}
