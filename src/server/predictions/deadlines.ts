/** Ends predictions at their time limits. All predictions share one timer. */
import { type InRing, Ring } from "../../base/collections/ring.ts";

interface Timed<T extends Timed<T>> extends InRing<T> {
  /** Time limit, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
}

export class Deadlines<T extends Timed<T>> {
  readonly #expired: (timed: T) => void;
  /** Predictions with a time limit, in order of arrival. */
  readonly #active = new Ring<T>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAtMs = Infinity;

  /** @param expired called once for each entry whose time limit has passed */
  constructor(expired: (timed: T) => void) {
    this.#expired = expired;
  }

  /** Entries in order of arrival. */
  get active(): Iterable<T> {
    return this.#active;
  }

  add(timed: T): void {
    this.#active.add(timed);
    if (timed.deadlineMs < this.#timerAtMs) this.#arm(timed.deadlineMs);
  }

  delete(timed: T): void {
    this.#active.delete(timed);
    // Keeps the timer even if this entry set it. Most entries end before their limit, and one timer that finds nothing costs less than a new timer
    // per entry.
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    // setTimeout() accepts at most 2^31 - 1 ms. For a later limit, #check() sets the timer again.
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
