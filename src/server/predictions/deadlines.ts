/** Time limits of predictions: one timer for all, on a monotonic clock. */
import { type InRing, Ring } from "../../base/collections/ring.ts";

interface Timed<T extends Timed<T>> extends InRing<T> {
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
}

export class Deadlines<T extends Timed<T>> {
  readonly #expired: (timed: T) => void;
  /** In order of arrival. */
  readonly #active = new Ring<T>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAtMs = Infinity;

  /** @param expired called once for each expired entry */
  constructor(expired: (timed: T) => void) {
    this.#expired = expired;
  }

  /** In order of arrival. */
  get active(): Iterable<T> {
    return this.#active;
  }

  add(timed: T): void {
    this.#active.add(timed);
    if (timed.deadlineMs < this.#timerAtMs) this.#arm(timed.deadlineMs);
  }

  delete(timed: T): void {
    this.#active.delete(timed);
    // The timer stays: most entries leave early, and a timer without an expired entry costs less than a new one for each.
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    // A timer takes at most 2^31 - 1 ms; a longer one is set again after that.
    this.#timer = setTimeout(() => this.#check(), Math.min(Math.max(0, atMs - performance.now()), 2 ** 31 - 1));
    this.#timer.unref();
  }

  #check(): void {
    this.#timerAtMs = Infinity;
    const now = performance.now();
    let soonest = Infinity;
    for (const timed of [...this.#active]) {
      if (timed.deadlineMs > now) {
        soonest = Math.min(soonest, timed.deadlineMs);
      } else if (this.#active.delete(timed)) {
        this.#expired(timed);
      }
    }
    if (soonest < this.#timerAtMs) this.#arm(soonest);
  }
}
