/** Trying again what a network or an overloaded registry cut short: a few times, waiting longer each time. */
import { setTimeout as sleep } from "node:timers/promises";
import { SconceError } from "../../base/errors.ts";

/** A failure that may not happen again; `error` is what to say if it does. */
export class Interruption extends Error {
  readonly error: SconceError;
  /** How long the registry asks to be left alone, in milliseconds. */
  readonly afterMs: number;

  constructor(error: SconceError, afterMs = 0) {
    super(error.message, { cause: error });
    this.error = error;
    this.afterMs = afterMs;
  }
}

export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Before the second try; doubled before each one after it. */
  readonly firstDelayMs: number;
}

const maxTries = 5;
const maxDelayMs = 30_000;

export class Retry {
  readonly #options: RetryOptions;
  #failures = 0;

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /**
   * Tries until `attempt` ends without an `Interruption`.
   * @param doneBytes of a transfer; a long one may be cut short more often, so progress starts the count of tries anew
   * @throws what failed last
   */
  async run<T>(attempt: () => Promise<T>, doneBytes = () => 0): Promise<T> {
    for (let furthest = doneBytes(); ; furthest = Math.max(furthest, doneBytes())) {
      try {
        return await attempt();
      } catch (error) {
        if (doneBytes() > furthest) this.#failures = 0;
        await this.#wait(error);
      }
    }
  }

  async #wait(failure: unknown): Promise<void> {
    const { signal, firstDelayMs } = this.#options;
    if (!(failure instanceof Interruption)) throw failure;
    this.#failures += 1;
    if (this.#failures === maxTries) {
      const { code, message } = failure.error;
      throw new SconceError(code, `${message} (tried ${maxTries} times)`, { cause: failure.error });
    }
    const delayMs = firstDelayMs * 2 ** (this.#failures - 1) * (0.75 + Math.random() / 2);
    await sleep(Math.min(Math.max(delayMs, failure.afterMs), maxDelayMs), undefined, { signal }).catch(() => {});
    signal.throwIfAborted();
  }
}
