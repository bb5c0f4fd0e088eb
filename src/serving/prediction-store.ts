/** Finds predictions by id and forgets ended ones by count, age and bytes. */
import { Fifo } from "../engine/fifo.ts";
import type { PredictionRecord } from "./record.ts";

export interface RetentionLimits {
  /** Most ended predictions that are kept. */
  readonly maxCount: number;
  /** How long an ended prediction is kept. */
  readonly maxAgeMs: number;
  /** Most bytes of the results of all ended predictions; the newest is always kept. */
  readonly maxBytes: number;
}

/** Roughly what a record takes beside its result. */
const RECORD_BYTES = 512;

export class PredictionStore {
  readonly #limits: RetentionLimits;
  readonly #now: () => number;
  readonly #predictions = new Map<string, PredictionRecord>();
  /** Ended ones, in the order in which they ended. */
  readonly #ended = new Fifo<PredictionRecord>();
  #bytes = 0;

  constructor(limits: RetentionLimits, now: () => number = Date.now) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Predictions that have not ended. */
  get active(): number {
    return this.#predictions.size - this.#ended.length;
  }

  get retained(): { count: number; bytes: number } {
    return { count: this.#ended.length, bytes: this.#bytes };
  }

  add(prediction: PredictionRecord): void {
    this.#predictions.set(prediction.id, prediction);
  }

  get(id: string): PredictionRecord | undefined {
    this.#sweep();
    return this.#predictions.get(id);
  }

  /** To be told once, when a prediction has ended. */
  ended(prediction: PredictionRecord): void {
    this.#ended.push(prediction);
    this.#bytes += bytesOf(prediction);
    this.#sweep();
  }

  #sweep(): void {
    const { maxCount, maxAgeMs, maxBytes } = this.#limits;
    const tooOld = this.#now() - maxAgeMs;
    for (let oldest = this.#ended.first; oldest !== undefined; oldest = this.#ended.first) {
      const isOver = this.#ended.length > maxCount || (this.#bytes > maxBytes && this.#ended.length > 1);
      if (!isOver && (oldest.finishedAtMs ?? 0) >= tooOld) return;
      this.#ended.shift();
      this.#predictions.delete(oldest.id);
      this.#bytes -= bytesOf(oldest);
    }
  }
}

function bytesOf(prediction: PredictionRecord): number {
  return RECORD_BYTES + prediction.resultBytes;
}
