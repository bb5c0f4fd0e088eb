/** The delay before a process that has died is started again. */

const FIRST_MS = 100;
const MAX_MS = 10_000;
/** If a process was ready for this long, earlier deaths no longer count. */
const RESET_MS = 30_000;

/**
 * The delay doubles with each death. The first restart comes at once. Each later delay is random between half and the
 * whole of its value, at most 10 s.
 */
export class Backoff {
  readonly #random: () => number;
  #deaths = 0;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /**
   * The delay before the next start, in milliseconds.
   * @param upMs milliseconds that the dead process was ready; 0 if it never was
   */
  nextMs(upMs: number): number {
    if (upMs >= RESET_MS) this.#deaths = 0;
    const deaths = this.#deaths++;
    if (deaths === 0) return 0;
    const fullMs = Math.min(MAX_MS, FIRST_MS * 2 ** (deaths - 1));
    // Random delays keep processes with the same fault from restarting at the same moment.
    return fullMs * (1 - this.#random() / 2);
  }
}
