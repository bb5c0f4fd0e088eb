/** Keeps ended predictions in this process's memory and forgets them by count, age and bytes. */
import { Fifo } from "../engine/fifo.ts";
import type { EndedRecord, PredictionRecord } from "./record.ts";
import type { LeftRequest, PredictionStore, RetentionLimits } from "./store.ts";

/** Roughly the size of a record without its outcome and logs. */
const RECORD_BYTES = 512;

interface Kept {
  readonly record: EndedRecord;
  readonly bytes: number;
  /** By the store's clock. */
  readonly endedMs: number;
}

/** A request is not kept: it is held by the process that runs it, and is lost with it. */
export class MemoryStore implements PredictionStore {
  readonly #limits: RetentionLimits;
  readonly #now: () => number;
  readonly #byId = new Map<string, Kept>();
  /** In the order in which they ended. */
  readonly #ended = new Fifo<Kept>();
  #bytes = 0;

  /** @param now milliseconds by a clock that is never set */
  constructor(limits: RetentionLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  get retained(): { count: number; bytes: number } {
    this.#sweep(this.#now());
    return { count: this.#byId.size, bytes: this.#bytes };
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
    this.#bytes += bytes;
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
    this.#bytes -= kept.bytes;
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
      const isOver = count > maxCount || (this.#bytes > maxBytes && count > 1) || now - oldest.endedMs > maxAgeMs;
      // A record that was forgotten before its time still stands in the queue.
      if (!isOver && this.#byId.get(oldest.record.id) === oldest) return;
      this.#ended.shift();
      if (this.#byId.get(oldest.record.id) !== oldest) continue;
      this.#byId.delete(oldest.record.id);
      this.#bytes -= oldest.bytes;
    }
  }
}

/** The bytes that a record counts with: its texts in UTF-8, as they are kept and sent. */
function recordBytes({ outcome, logs }: EndedRecord): number {
  return RECORD_BYTES + Buffer.byteLength(outcome.members) + (logs === "" ? 0 : Buffer.byteLength(logs));
}
