/** Ends what has run out of time, with one timer for all, by a clock that nobody sets. */
import { type InRing, Ring } from "../../base/collections/ring.ts";

interface Timed<T extends Timed<T>> extends InRing<T> {
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
}

export class Deadlines<T extends Timed<T>> {
  readonly #expired: (timed: T) => void;
  /** In the order in which they came. */
  readonly #active = new Ring<T>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAtMs = Infinity;

  /** @param expired called once for each whose time is up */
  constructor(expired: (timed: T) => void) {
    this.#expired = expired;
  }

  /** In the order in which they came. */
  get active(): Iterable<T> {
    return this.#active;
  }

  add(timed: T): void {
    this.#active.add(timed);
    if (timed.deadlineMs < this.#timerAtMs) this.#arm(timed.deadlineMs);
  }

  delete(timed: T): void {
    this.#active.delete(timed);
    // The timer stays: most go long before their time, and a timer that finds nothing costs less than moving it each time.
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    // Node's timers take at most 2^31 - 1 ms; a longer one is armed again then.
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
