/** Aborts a transfer that makes no progress. A transfer has no limit on its whole duration. */
export class SilenceLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal, ms: number) {
    this.signal = AbortSignal.any([signal, this.#controller.signal]);
    this.#ms = ms;
    this.#start(ms);
  }

  /** Notes progress. */
  touch(): void {
    this.#timer?.refresh();
  }

  /** Allows a silence of another length, from now on. */
  allow(times: number): void {
    this.#start(this.#ms * times);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #start(ms: number): void {
    clearTimeout(this.#timer);
    const abort = () => this.#controller.abort(new DOMException("silent for too long", "TimeoutError"));
    this.#timer = setTimeout(abort, ms);
  }
}
