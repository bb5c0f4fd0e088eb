/** A clock that continues across restarts of the server, and that changes of the system time do not move. */

/** The times of the last write to the database. */
export interface ClockMark {
  readonly elapsedMs: number;
  /** Wall-clock time of the write, in milliseconds since 1970. */
  readonly wallMs: number;
}

/**
 * Within a process it is the monotonic clock. For the time between two processes it adds the difference of the wall clock, or 0 if that is negative.
 */
export class ElapsedClock {
  #base: number;

  constructor(last: ClockMark, wallMs: number) {
    this.#base = last.elapsedMs + Math.max(0, wallMs - last.wallMs) - performance.now();
  }

  now(): number {
    return this.#base + performance.now();
  }

  /** Advances the clock to `elapsedMs` if that is later. Processes that share a database call it with the time of the last write. */
  follow(elapsedMs: number): void {
    this.#base = Math.max(this.#base, elapsedMs - performance.now());
  }
}
