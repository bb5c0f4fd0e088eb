/** A prediction that requests of this process wait for, wherever it runs. */
import { hasEnded, type PredictionRecord } from "../predictions/record.ts";

export class Awaited implements Disposable {
  readonly id: string;
  /** How it ended; undefined also where there is none any more. */
  record: PredictionRecord | undefined;
  isOver = false;
  /** When it was looked at last, in `performance.now()` milliseconds; before it is waited for nobody looks. */
  lookedMs = Number.POSITIVE_INFINITY;
  readonly #onGone: () => void;
  #requests = 0;
  #waiters: (() => void)[] = [];
  #looked: PredictionRecord | undefined;
  readonly #watchers = new Set<() => void>();

  /** @param onGone called when no request waits any more */
  constructor(id: string, onGone: () => void) {
    this.id = id;
    this.#onGone = onGone;
  }

  /** For one more request, which disposes of it. */
  shared(): this {
    this.#requests += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#requests -= 1;
    if (this.#requests === 0) this.#onGone();
  }

  end(record: PredictionRecord | undefined): void {
    if (this.isOver) return;
    this.isOver = true;
    this.record = record;
    this.release();
  }

  /** Calls back to all that wait, ended or not. */
  release(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const callback of waiters) callback();
    this.#looked = undefined;
    for (const changed of this.#watchers) changed();
  }

  onceOver(callback: () => void): void {
    if (this.isOver) callback();
    else this.#waiters.push(callback);
  }

  /** As it was known last; undefined once nobody here hears of it any more. */
  get latest(): PredictionRecord | undefined {
    return this.isOver ? this.record : this.#looked;
  }

  /** It was looked at. */
  looked(record: PredictionRecord | undefined): void {
    if (record === undefined || hasEnded(record)) this.end(record);
    else this.#looked = record;
    for (const changed of this.#watchers) changed();
  }

  /** Calls back whenever it may have changed. @returns what stops that */
  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  forgo(callback: () => void): void {
    this.#waiters = this.#waiters.filter((waiter) => waiter !== callback);
  }
}
