/** A clock that continues over the processes of a database, and that nobody can set. */

/** The clock at the last write of the database. */
export interface ClockMark {
  readonly elapsedMs: number;
  /** The wall clock at that time. */
  readonly wallMs: number;
}

/**
 * Within a process this is the monotonic clock. For the time between processes it trusts a wall clock that went forward, and adds nothing for one that
 * went backward.
 */
export class ElapsedClock {
  #base: number;

  constructor(last: ClockMark, wallMs: number) {
    this.#base = last.elapsedMs + Math.max(0, wallMs - last.wallMs) - performance.now();
  }

  now(): number {
    return this.#base + performance.now();
  }

  /** Processes that share a database follow the clock that is ahead. */
  follow(elapsedMs: number): void {
    this.#base = Math.max(this.#base, elapsedMs - performance.now());
  }
}
