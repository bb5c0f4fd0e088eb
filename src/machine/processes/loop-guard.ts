/**
 * Ends this process if the model's code blocks the event loop for too long. A blocked event loop answers neither
 * requests nor signals.
 */
import { DeadlineThread, lastLine } from "./deadline-thread.ts";

/** Milliseconds after which the loop renews its deadline. */
const BEAT_MS = 1000;
const ONLY = 0;

export class LoopGuard implements Disposable {
  readonly #thread = new DeadlineThread();
  readonly #beat: ReturnType<typeof setInterval>;

  /** @param limitMs longest time that the event loop may be blocked */
  constructor(limitMs: number) {
    const message = `the model's code has blocked the server for ${limitMs / 1000} s, so the server ends`;
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
