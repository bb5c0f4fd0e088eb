/** Ended predictions in this process's memory, forgotten by count, age and bytes. */
import { Fifo } from "../engine/fifo.ts";
import type { EndedRecord, PredictionRecord } from "./record.ts";
import type { LeftRequest, PredictionStore, RetentionLimits } from "./store.ts";

/** Roughly what a record takes beside its result. */
const RECORD_BYTES = 512;

interface Kept {
  readonly record: EndedRecord;
  readonly bytes: number;
  readonly atMs: number;
}

export class MemoryStore implements PredictionStore {
  readonly #limits: RetentionLimits;
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();
  readonly #order = new Fifo<Kept>();
  #bytes = 0;

  constructor(limits: RetentionLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  get retained(): { count: number; bytes: number } {
    return { count: this.#order.length, bytes: this.#bytes };
  }

  async create(): Promise<void> {}

  begun(): void {}

  finish(record: EndedRecord): void {
    if (this.#kept.has(record.id)) return;
    const bytes = RECORD_BYTES + Buffer.byteLength(record.outcome.members) + Buffer.byteLength(record.logs);
    const kept = { record, bytes, atMs: this.#now() };
    this.#kept.set(record.id, kept);
    this.#order.push(kept);
    this.#bytes += bytes;
    this.#sweep();
  }

  async get(id: string): Promise<PredictionRecord | undefined> {
    this.#sweep();
    return this.#kept.get(id)?.record;
  }

  async *left(): AsyncIterable<LeftRequest> {}

  async flush(): Promise<void> {}

  async close(): Promise<void> {}

  #sweep(): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    const tooOld = this.#now() - maxAgeMs;
    for (let oldest = this.#order.first; oldest !== undefined; oldest = this.#order.first) {
      const isOver = this.#order.length > maxCount || (this.#bytes > maxBytes && this.#order.length > 1);
      if (!isOver && oldest.atMs >= tooOld) return;
      this.#order.shift();
      this.#kept.delete(oldest.record.id);
      this.#bytes -= oldest.bytes;
    }
  }
}
