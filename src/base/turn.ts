/** Longest hold of the event loop by default. */
const MAX_HOLD_MS = 2;

/** Work that shares the event loop: `next` lets other work run. */
export class Turn {
  readonly #maxMs: number;
  #beganMs = performance.now();
  /** Milliseconds of other work in all calls of `next`. */
  waitedMs = 0;

  constructor(maxMs = MAX_HOLD_MS) {
    this.#maxMs = maxMs;
  }

  /** Whether the work has held the event loop for `maxMs`. */
  get isOver(): boolean {
    return performance.now() - this.#beganMs > this.#maxMs;
  }

  async next(): Promise<void> {
    const endedMs = performance.now();
    await new Promise((resolve) => setImmediate(resolve));
    this.#beganMs = performance.now();
    this.waitedMs += this.#beganMs - endedMs;
  }
}
