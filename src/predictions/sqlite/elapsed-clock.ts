/** A clock that continues when the server restarts, and ignores changes of the system time while it runs. */

/** Times of the last write to the database, from which the next process continues the clock. */
export interface ClockMark {
  readonly elapsedMs: number;
  /** Wall-clock time of the write in milliseconds since 1970. */
  readonly wallMs: number;
}

/** Advances with the monotonic clock, and across a restart with the wall clock, but never back. */
export class ElapsedClock {
  #base: number;

  constructor(last: ClockMark, wallMs: number) {
    this.#base = last.elapsedMs + Math.max(0, wallMs - last.wallMs) - performance.now();
  }

  now(): number {
    return this.#base + performance.now();
  }

  /** Advances the clock to a time that another process has written to the database, if that is later. */
  follow(elapsedMs: number): void {
    this.#base = Math.max(this.#base, elapsedMs - performance.now());
  }
}
