/** A clock that continues over the processes of a database, and that nobody can set. */

/** The clock at the last write of the database. */
export interface ClockMark {
  readonly elapsedMs: number;
  /** The wall clock at that time. */
  readonly wallMs: number;
}

/**
 * Within a process this is the monotonic clock. The time between two processes is the difference of the wall clock, or 0 if the wall clock went backward.
 */
export class ElapsedClock {
  #base: number;

  constructor(last: ClockMark, wallMs: number) {
    this.#base = last.elapsedMs + Math.max(0, wallMs - last.wallMs) - performance.now();
  }

  now(): number {
    return this.#base + performance.now();
  }

  /** Advances this clock to `elapsedMs` of another process, if that is later. Processes that share a database do this. */
  follow(elapsedMs: number): void {
    this.#base = Math.max(this.#base, elapsedMs - performance.now());
  }
}
