/** Keeps ended predictions in this process's memory and forgets them by count, age and bytes. */
import { Fifo } from "../engine/fifo.ts";
import type { Charge } from "../memory/charge.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import { byteLengthOf } from "./large-text.ts";
import type { EndedRecord, PredictionRecord } from "./record.ts";
import type { LeftRequest, PredictionStore, RetentionLimits } from "./store.ts";

/** Roughly the size of a record without its outcome and logs, as 200,000 small ones took it (Bun 1.4.5). */
const RECORD_BYTES = 704;

interface Options {
  readonly now?: () => number;
  readonly memory?: MemoryAccount;
}

interface Kept {
  readonly record: EndedRecord;
  readonly bytes: number;
  /** By the store's clock. */
  readonly endedMs: number;
}

/** A request is not kept: it is held by the process that runs it, and is lost with it. */
export class MemoryStore implements PredictionStore {
  readonly #limits: RetentionLimits;
  readonly #byId = new Map<string, Kept>();
  /** In the order in which they ended. */
  readonly #ended = new Fifo<Kept>();
  readonly #charge: Charge;
  readonly #now: () => number;

  /**
   * @param options.now milliseconds by a clock that is never set
   * @param options.memory where it has no room for what else is held, the oldest records are forgotten
   */
  constructor(limits: RetentionLimits, { now = () => performance.now(), memory = new MemoryAccount() }: Options = {}) {
    this.#limits = { ...limits, maxBytes: Math.min(limits.maxBytes, memory.maxResultBytes) };
    this.#now = now;
    this.#charge = memory.add("results", 0);
    memory.onPressure(() => {
      while (memory.isOver && this.#byId.size > 1) this.#forgetOldest();
    });
  }

  get retained(): { count: number; bytes: number } {
    this.#sweep(this.#now());
    return { count: this.#byId.size, bytes: this.#charge.bytes };
  }

  create(): Promise<void> {
    return Promise.resolve();
  }

  begun(): void {}

  interrupted(): void {}

  finish(record: EndedRecord): void {
    this.keep(record);
  }

  /** The same as `finish`. Returns the bytes that the record counts with, or undefined where there was an outcome. */
  keep(record: EndedRecord): number | undefined {
    if (this.#byId.has(record.id)) return undefined;
    const endedMs = this.#now();
    const bytes = recordBytes(record);
    const kept = { record, bytes, endedMs };
    this.#byId.set(record.id, kept);
    this.#ended.push(kept);
    this.#charge.grow(bytes);
    this.#sweep(endedMs);
    return bytes;
  }

  get(id: string): Promise<PredictionRecord | undefined> {
    return Promise.resolve(this.recall(id));
  }

  /** The same as `get`, at once. */
  recall(id: string): EndedRecord | undefined {
    this.#sweep(this.#now());
    return this.#byId.get(id)?.record;
  }

  /** Drops a record before its time. */
  forget(id: string): void {
    const kept = this.#byId.get(id);
    if (kept === undefined) return;
    this.#byId.delete(id);
    this.#charge.grow(-kept.bytes);
  }

  async *left(): AsyncGenerator<LeftRequest> {}

  flush(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #sweep(now: number): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    for (let oldest = this.#ended.first; oldest !== undefined; oldest = this.#ended.first) {
      const count = this.#byId.size;
      const isOver =
        count > maxCount || (this.#charge.bytes > maxBytes && count > 1) || now - oldest.endedMs > maxAgeMs;
      // A record that was forgotten before its time still stands in the queue.
      if (!isOver && this.#byId.get(oldest.record.id) === oldest) return;
      this.#forgetOldest();
    }
  }

  #forgetOldest(): void {
    const oldest = this.#ended.shift();
    if (oldest === undefined || this.#byId.get(oldest.record.id) !== oldest) return;
    this.#byId.delete(oldest.record.id);
    this.#charge.grow(-oldest.bytes);
  }
}

/** The bytes that a record counts with: its texts in UTF-8, as they are kept and sent. */
function recordBytes({ outcome, logs }: EndedRecord): number {
  return RECORD_BYTES + byteLengthOf(outcome.members) + (logs === "" ? 0 : Buffer.byteLength(logs));
}
