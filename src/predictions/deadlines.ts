/** Ends predictions at their time limits. All predictions share one timer. */
import { type InRing, Ring } from "../base/collections/ring.ts";

interface Timed<T extends Timed<T>> extends InRing<T> {
  /** When the prediction times out, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
}

export class Deadlines<T extends Timed<T>> {
  readonly #expired: (timed: T) => void;
  readonly #active = new Ring<T>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAtMs = Infinity;

  /** @param expired called once for each prediction whose time limit has passed */
  constructor(expired: (timed: T) => void) {
    this.#expired = expired;
  }

  /** The predictions in order of arrival. */
  get active(): Iterable<T> {
    return this.#active;
  }

  add(timed: T): void {
    this.#active.add(timed);
    if (timed.deadlineMs < this.#timerAtMs) this.#arm(timed.deadlineMs);
  }

  /** Does not reset the timer: most predictions end in time, and a reset for each costs more than a vain check. */
  delete(timed: T): void {
    this.#active.delete(timed);
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    // setTimeout() accepts at most 2^31 - 1 ms, so a later time limit takes several timers.
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
