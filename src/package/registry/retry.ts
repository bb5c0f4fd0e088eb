/** Repeats requests after network failures, or when the registry is overloaded, with growing delays. */
import { setTimeout as sleep } from "node:timers/promises";
import { SconceError } from "../../base/errors.ts";

/** Marks a failure that is worth a retry. `error` is the failure itself, for the caller after the last try. */
export class Interruption extends Error {
  readonly error: SconceError;
  /**
   * Minimum delay before the next try in milliseconds, from the registry's `Retry-After` header; 0 without it. `Retry`
   * waits at most 30 s.
   */
  readonly afterMs: number;

  constructor(error: SconceError, afterMs = 0) {
    super(error.message, { cause: error });
    this.error = error;
    this.afterMs = afterMs;
  }
}

export interface RetryOptions {
  readonly signal: AbortSignal;
  /**
   * Delay before the second try, in milliseconds, times a random factor from 0.75 to 1.25. It doubles with each further
   * try, up to 30 s.
   */
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
   * Calls `attempt` until it succeeds, at most 5 times without progress. Only an `Interruption` is repeated.
   * @param doneBytes returns the bytes transferred so far; an increase resets the count of failures
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
