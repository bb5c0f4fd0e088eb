/** Keeps ended predictions in this process's memory and forgets them by count, age and bytes. */
import type { Charge } from "../memory/charge.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import { hashOf } from "./ids.ts";
import type { EndedRecord, PredictionRecord } from "./record.ts";
import { RecordIndex } from "./record-index.ts";
import { type Place, RecordLog } from "./record-log.ts";
import type { LeftRequest, PredictionStore, RetentionLimits } from "./store.ts";

/** Counted for a record beside its outcome and logs, in all stores alike: no less than is taken here (about 340 each, as 200,000 small ones took it, Bun 1.4.5). */
const RECORD_BYTES = 704;

interface Options {
  readonly now?: () => number;
  readonly memory?: MemoryAccount;
}

/** A request is not kept: it is held by the process that runs it, and is lost with it. */
export class MemoryStore implements PredictionStore {
  readonly #limits: RetentionLimits;
  /** In the order in which they ended. */
  readonly #records = new RecordLog();
  readonly #index = new RecordIndex();
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
      for (let oldest = this.#records.first; oldest !== undefined; oldest = this.#records.first) {
        if (!memory.isOver || this.#index.size < 2) return;
        this.#forget(oldest);
      }
    });
  }

  get retained(): { count: number; bytes: number } {
    this.#sweep(this.#now());
    return { count: this.#index.size, bytes: this.#charge.bytes };
  }

  /** When the oldest record was kept, by the clock of the store: all that were kept since are there, too. Infinity where there is none. */
  get oldestMs(): number {
    const { first } = this.#records;
    return first === undefined ? Infinity : this.#records.keptMs(first);
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
    const hash = hashOf(record.id);
    const keptMs = this.#now();
    if (this.#isTaken(record.id, hash, keptMs)) return undefined;
    const place = this.#records.push(record, keptMs, hash);
    this.#index.add(hash, place);
    const bytes = this.#bytesOf(place);
    this.#charge.grow(bytes);
    this.#sweep(keptMs);
    return bytes;
  }

  get(id: string): Promise<PredictionRecord | undefined> {
    return Promise.resolve(this.recall(id));
  }

  /** The same as `get`, at once. */
  recall(id: string): EndedRecord | undefined {
    this.#sweep(this.#now());
    const place = this.#placeOf(id);
    return place === undefined ? undefined : this.#records.record(place);
  }

  /** Drops a record before its time. */
  forget(id: string): void {
    const place = this.#placeOf(id);
    if (place !== undefined) this.#forget(place);
  }

  async *left(): AsyncGenerator<LeftRequest> {}

  written(): Promise<void> {
    return Promise.resolve();
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Whether there is an outcome that can be read: one that has expired is in nobody's way. */
  #isTaken(id: string, hash: number, now: number): boolean {
    if (this.#placeOf(id, hash) === undefined) return false;
    this.#sweep(now);
    return this.#placeOf(id, hash) !== undefined;
  }

  #placeOf(id: string, hash = hashOf(id)): Place | undefined {
    return this.#index.find(id, hash, this.#records);
  }

  #sweep(now: number): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    for (let oldest = this.#records.first; oldest !== undefined; oldest = this.#records.first) {
      const count = this.#index.size;
      const isOver =
        count > maxCount ||
        (this.#charge.bytes > maxBytes && count > 1) ||
        now - this.#records.keptMs(oldest) > maxAgeMs;
      if (!isOver) return;
      this.#forget(oldest);
    }
  }

  #forget(place: Place): void {
    this.#index.delete(this.#records.hash(place), place);
    this.#charge.grow(-this.#bytesOf(place));
    this.#records.drop(place);
  }

  /** What a record counts with: its texts in UTF-8, as they are kept and sent, and itself. */
  #bytesOf(place: Place): number {
    return RECORD_BYTES + this.#records.textBytes(place);
  }
}
