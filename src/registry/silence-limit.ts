/** Aborts what has been silent for too long: a transfer may take as long as it takes, but must go on. */
export class SilenceLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal, ms: number) {
    this.signal = AbortSignal.any([signal, this.#controller.signal]);
    this.#ms = ms;
  }

  /** Begins to count, or begins anew. */
  touch(): void {
    if (this.#timer !== undefined) {
      this.#timer.refresh();
      return;
    }
    const abort = () => this.#controller.abort(new DOMException("silent for too long", "TimeoutError"));
    this.#timer = setTimeout(abort, this.#ms);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
