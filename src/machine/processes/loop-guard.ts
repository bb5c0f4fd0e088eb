/** Ends this process when the model's code has held its event loop for too long: nothing else is answered meanwhile, not even a signal. */
import { DeadlineThread, lastLine } from "./deadline-thread.ts";

/** How often the loop says that it turns. */
const BEAT_MS = 1000;
const ONLY = 0;

export class LoopGuard implements Disposable {
  readonly #thread = new DeadlineThread();
  readonly #beat: ReturnType<typeof setInterval>;

  /** @param limitMs how long the loop may be held */
  constructor(limitMs: number) {
    const message = `the model's code has held the server for ${limitMs / 1000} s (twice --hook-timeout), in which nothing was answered; it ends`;
    const beat = () => {
      const line = lastLine(message, "processes_unavailable", limitMs);
      this.#thread.set(ONLY, { afterMs: limitMs, graceMs: 2 * BEAT_MS, line });
    };
    beat();
    this.#beat = setInterval(beat, Math.min(BEAT_MS, limitMs / 4));
    this.#beat.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#beat);
    this.#thread[Symbol.dispose]();
  }
}
