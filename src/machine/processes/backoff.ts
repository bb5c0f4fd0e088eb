/** The delay before a dead process is started again. */

const FIRST_MS = 100;
const MAX_MS = 10_000;
/** After this time without a death, the count of deaths starts again. */
const RESET_MS = 30_000;

/** The first restart comes at once; each further one waits twice as long, less up to half at random, 10 s at most. */
export class Backoff {
  readonly #random: () => number;
  #deaths = 0;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** @param upMs how long the dead process had been ready; 0 if it never was */
  nextMs(upMs: number): number {
    if (upMs >= RESET_MS) this.#deaths = 0;
    const deaths = this.#deaths++;
    if (deaths === 0) return 0;
    const fullMs = Math.min(MAX_MS, FIRST_MS * 2 ** (deaths - 1));
    // Random delays keep processes with the same fault from restarting in step.
    return fullMs * (1 - this.#random() / 2);
  }
}
