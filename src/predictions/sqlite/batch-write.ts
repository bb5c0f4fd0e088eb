/** Writes a batch of changes within a transaction, and counts the retained predictions. */
import type { Statements } from "./prediction-statements.ts";
import type { CreationRow, EndRow, Row, Totals } from "./rows.ts";

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

  write({ id, creation, begunAtMs, end, isDropped = false, webhook }: Row): void {
    if (creation !== undefined) this.#create(id, creation, begunAtMs ?? null);
    else if (begunAtMs !== undefined) this.#sql.begun.run(begunAtMs, id);
    if (end !== undefined || isDropped) this.#discard(this.#sql.removeUnfinished.get(id)?.file ?? null);
    if (end !== undefined) this.#end(id, end);
    if (webhook === null) this.#sql.removeWebhook.run(id);
    else if (webhook !== undefined) this.#sql.addWebhook.run(id, webhook);
  }

  #create(id: string, row: CreationRow, begunAtMs: number | null): void {
    const { nowMs, server } = this.#options;
    const deadlineMs = nowMs - row.ageMs + row.timeoutMs;
    const insert = () => this.#sql.create.run({ ...row, id, begunAtMs, deadlineMs, server }).changes > 0;
    if (!insert() && !(this.#removeExpired(id) && insert())) this.#discard(row.file);
  }

  #end(id: string, row: EndRow): void {
    const endedMs = this.#options.nowMs - row.ageMs;
    const insert = () => this.#sql.end.run({ ...row, id, endedMs }).changes > 0;
    if (insert() || (this.#removeExpired(id) && insert())) {
      this.added += 1;
      this.totalCount += 1;
      this.totalBytes += row.bytes;
      return;
    }
    this.refused.push(id);
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

  #discard(file: string | null): void {
    if (file !== null) this.staleFiles.push(file);
  }
}
