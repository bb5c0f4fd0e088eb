/** Longest time that work blocks the event loop by default, in milliseconds. */
const MAX_HOLD_MS = 2;

/** Splits long work, so that it does not block the event loop. The work calls `next` when `isOver` is true. */
export class Turn {
  readonly #maxMs: number;
  #beganMs = performance.now();
  /** Total milliseconds that other work ran during calls of `next`. */
  waitedMs = 0;

  constructor(maxMs = MAX_HOLD_MS) {
    this.#maxMs = maxMs;
  }

  /** Whether the work has blocked the event loop for `maxMs`. */
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

/** Maps a list like Array.map(), in turns between which other work runs. */
export async function mapInTurns<T, R>(values: readonly T[], map: (value: T, index: number) => R): Promise<R[]> {
  const results: R[] = [];
  const turn = new Turn();
  for (const [i, value] of values.entries()) {
    results.push(map(value, i));
    if (turn.isOver) await turn.next();
  }
  return results;
}
