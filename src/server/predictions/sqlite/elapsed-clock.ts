/** Milliseconds that go on from one process to the next and that nobody can set. */

/** What a database knows of the clock that wrote it last. */
export interface ClockMark {
  readonly elapsedMs: number;
  /** The wall clock at that time. */
  readonly wallMs: number;
}

/**
 * Within a process it goes as the monotonic clock does. Of the time without a process only the wall clock knows: it is taken as
 * right where it went forward, and as no time where it went backward.
 */
export class ElapsedClock {
  #base: number;

  constructor(last: ClockMark, wallMs: number) {
    this.#base = last.elapsedMs + Math.max(0, wallMs - last.wallMs) - performance.now();
  }

  now(): number {
    return this.#base + performance.now();
  }

  /** Processes that share a database follow the one that is ahead. */
  follow(elapsedMs: number): void {
    this.#base = Math.max(this.#base, elapsedMs - performance.now());
  }
}
