/** One batch of changes, in the transaction of a prediction database: writes them, and counts what they add and what goes. */
import type { Statements } from "./prediction-statements.ts";
import type { CreateRow, EndRow, Row } from "./sqlite-batch.ts";
import type { ToldPack, Totals } from "./sqlite-messages.ts";

interface Retention {
  /** By the database's clock. */
  readonly nowMs: number;
  readonly maxAgeMs: number;
}

export class BatchWrite implements Totals {
  readonly #sql: Statements;
  readonly #retention: Retention;
  totalCount: number;
  totalBytes: number;
  /** Rows of outcomes, and packs. */
  added = 0;
  /** Ids of outcomes that were not the first. */
  readonly refused: string[] = [];
  /** Files to be removed once the batch is committed. */
  readonly gone: string[] = [];

  /** @param before what the database has without the batch */
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

  tell(pack: ToldPack): void {
    const { firstSecond, lastSecond, toldCount, toldBytes, toldIds, toldHeads, toldTexts } = pack;
    const { nowMs } = this.#retention;
    this.#sql.tell.run(firstSecond, lastSecond, toldCount, toldBytes, nowMs, toldIds, toldHeads, toldTexts);
    this.#add(toldCount, toldBytes);
  }

  #create(row: CreateRow): void {
    if (this.#insertRequest(row) || (this.#removeExpired(row.id) && this.#insertRequest(row))) return;
    if (row.file !== null) this.gone.push(row.file);
  }

  #end(row: EndRow): void {
    if (this.#insertOutcome(row) || (this.#removeExpired(row.id) && this.#insertOutcome(row))) {
      this.#add(1, row.bytes);
      return;
    }
    this.refused.push(row.id);
    if (row.file !== null) this.gone.push(row.file);
  }

  /** False where there was a request or an outcome. */
  #insertRequest(row: CreateRow): boolean {
    const { id, kind, count, createdAtMs, timeoutMs, ageMs, begunAtMs, file, body, origin, digest } = row;
    const times = [createdAtMs, timeoutMs, this.#retention.nowMs - ageMs + timeoutMs, begunAtMs] as const;
    return this.#sql.create.run(id, kind, count, ...times, file, body, origin, digest).changes > 0;
  }

  /** False where there was an outcome. */
  #insertOutcome(row: EndRow): boolean {
    const { id, kind, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, status } = row;
    const { ageMs, bytes, file, fileMembersBytes, members, logs, digest } = row;
    const kept = [id, bytes, this.#retention.nowMs - ageMs, file, fileMembersBytes] as const;
    const times = [createdAtMs, startedAtMs, finishedAtMs] as const;
    return this.#sql.end.run(...kept, kind, count, itemsDone, ...times, status, members, logs, digest).changes > 0;
  }

  /**
   * Clients may take an id again as soon as its outcome can be read no longer, which is before retention has come to the row.
   * It is looked for only where a row is in the way, so that ids that are new cost nothing.
   */
  #removeExpired(id: string): boolean {
    const { nowMs, maxAgeMs } = this.#retention;
    const removed = this.#sql.removeExpired.get(id, nowMs, maxAgeMs);
    if (removed === null) return false;
    this.totalCount -= 1;
    this.totalBytes -= removed.bytes;
    if (removed.file !== null) this.gone.push(removed.file);
    return true;
  }

  #removeUnfinished(id: string): void {
    const removed = this.#sql.removeUnfinished.get(id);
    if (removed !== null && removed.file !== null) this.gone.push(removed.file);
  }

  #add(count: number, bytes: number): void {
    this.added += 1;
    this.totalCount += count;
    this.totalBytes += bytes;
  }
}
