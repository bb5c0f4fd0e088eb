/** How long to wait before a process that died is started again. */

const FIRST_MS = 100;
const MAX_MS = 10_000;
/** A process that was up for so long did not die of how it was started. */
const RESET_MS = 30_000;

/** The first restart comes at once; each further one waits twice as long, less up to half at random, 10 s at most. */
export class Backoff {
  readonly #random: () => number;
  #deaths = 0;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** @param upMs how long the process that died had been ready; 0 if it never was */
  nextMs(upMs: number): number {
    if (upMs >= RESET_MS) this.#deaths = 0;
    const deaths = this.#deaths++;
    if (deaths === 0) return 0;
    const fullMs = Math.min(MAX_MS, FIRST_MS * 2 ** (deaths - 1));
    // Several processes that died of one thing do not come back in step.
    return fullMs * (1 - this.#random() / 2);
  }
}
