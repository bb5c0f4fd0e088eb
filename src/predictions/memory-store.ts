/** Keeps ended predictions in memory, up to limits of count, age and bytes. Unfinished requests are not stored. */

import type { Charge } from "../pipeline/memory/charge.ts";
import { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { EndedRecord, PredictionRecord } from "./record.ts";
import { type Place, RecordLog } from "./record-log.ts";
import type { PredictionRequest } from "./request.ts";
import { isOverLimits, RECORD_BYTES, type RetentionLimits } from "./retention.ts";
import type { Accepted, Claimed, Store } from "./store.ts";

interface Options {
  readonly now?: () => number;
  readonly memory?: MemoryAccount;
}

export class MemoryStore implements Store {
  readonly #limits: RetentionLimits;
  readonly #records = new RecordLog();
  readonly #charge: Charge;
  readonly #now: () => number;

  /**
   * @param options.now monotonic clock in milliseconds
   * @param options.memory the memory of the whole server. While it is over its limit, the store evicts its oldest
   * records.
   */
  constructor(limits: RetentionLimits, { now = () => performance.now(), memory = new MemoryAccount() }: Options = {}) {
    this.#limits = { ...limits, maxBytes: Math.min(limits.maxBytes, memory.maxResultBytes) };
    this.#now = now;
    this.#charge = memory.add("results", 0);
    memory.onPressure(() => {
      for (let oldest = this.#records.first; oldest !== undefined; oldest = this.#records.first) {
        if (!memory.isOver || this.#records.size < 2) return;
        this.#evict(oldest);
      }
    });
  }

  get retained(): { count: number; bytes: number } {
    this.#sweep(this.#now());
    return { count: this.#records.size, bytes: this.#charge.bytes };
  }

  accept({ createdAtMs }: Pick<PredictionRequest, "createdAtMs">): Promise<Accepted> {
    return Promise.resolve({ createdAtMs });
  }

  async *claim(): AsyncGenerator<Claimed> {}

  processing(): void {}

  release(): Promise<void> {
    return Promise.resolve();
  }

  finish(record: EndedRecord): void {
    const keptMs = this.#now();
    // Only an id that a client chose, which has a digest, may have a record.
    if (record.digest !== undefined && this.recall(record.id) !== undefined) return;
    this.#charge.grow(this.#bytesOf(this.#records.push(record, keptMs)));
    this.#sweep(keptMs);
  }

  read(id: string): Promise<PredictionRecord | undefined> {
    return Promise.resolve(this.recall(id));
  }

  /** Like `read`, but synchronous. */
  recall(id: string): EndedRecord | undefined {
    this.#sweep(this.#now());
    const place = this.#records.find(id);
    return place === undefined ? undefined : this.#records.record(place);
  }

  written(): Promise<void> {
    return Promise.resolve();
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #sweep(now: number): void {
    for (let oldest = this.#records.first; oldest !== undefined; oldest = this.#records.first) {
      const ageMs = now - this.#records.keptMs(oldest);
      if (!isOverLimits(this.#limits, { count: this.#records.size, bytes: this.#charge.bytes, ageMs })) return;
      this.#evict(oldest);
    }
  }

  #evict(oldest: Place): void {
    this.#charge.grow(-this.#bytesOf(oldest));
    this.#records.shift();
  }

  #bytesOf(place: Place): number {
    return RECORD_BYTES + this.#records.textBytes(place);
  }
}
