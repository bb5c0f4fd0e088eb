/** Repeats requests after failures of the network or of an overloaded registry, with growing delays. */
import { setTimeout as sleep } from "node:timers/promises";
import { SconceError } from "../../base/errors.ts";

/** A failure that a retry may avoid. After the last try, `error` is thrown. */
export class Interruption extends Error {
  readonly error: SconceError;
  /** Delay that the registry asked for, in milliseconds. */
  readonly afterMs: number;

  constructor(error: SconceError, afterMs = 0) {
    super(error.message, { cause: error });
    this.error = error;
    this.afterMs = afterMs;
  }
}

export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Delay before the second try, in milliseconds. It doubles with each further try. */
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
   * Repeats `attempt` after an `Interruption`.
   * @param doneBytes returns the bytes transferred so far; progress resets the count of tries
   * @throws the last failure
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
