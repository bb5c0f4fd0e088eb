/** A prediction that requests of this process wait for, wherever it runs. */
import type { PredictionRecord } from "../predictions/record.ts";

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
  }

  onceOver(callback: () => void): void {
    if (this.isOver) callback();
    else this.#waiters.push(callback);
  }

  forgo(callback: () => void): void {
    this.#waiters = this.#waiters.filter((waiter) => waiter !== callback);
  }
}
