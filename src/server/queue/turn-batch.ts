/** Collects what is asked for in one turn of the event loop, and asks for all of it in one call. */

export interface TurnBatchOptions<T, R> {
  /** Gives an answer for each, in order. */
  readonly call: (asked: readonly T[]) => Promise<readonly R[]>;
  readonly bytesOf?: (asked: T) => number;
}

/** One call holds up everybody else's. */
const MAX_COUNT = 16;
const MAX_BYTES = 2 ** 20;

interface Asked<T, R> {
  readonly asked: T;
  readonly resolve: (answer: R) => void;
  readonly reject: (error: unknown) => void;
}

export class TurnBatch<T, R> {
  readonly #options: TurnBatchOptions<T, R>;
  #next: Asked<T, R>[] = [];
  #bytes = 0;
  #willCall = false;

  constructor(options: TurnBatchOptions<T, R>) {
    this.#options = options;
  }

  /** @throws whatever the call did */
  ask(asked: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#next.push({ asked, resolve, reject });
      this.#bytes += this.#options.bytesOf?.(asked) ?? 0;
      if (this.#next.length >= MAX_COUNT || this.#bytes >= MAX_BYTES) void this.#call();
      else if (!this.#willCall) {
        this.#willCall = true;
        setImmediate(() => {
          this.#willCall = false;
          void this.#call();
        });
      }
    });
  }

  async #call(): Promise<void> {
    const batch = this.#next;
    if (batch.length === 0) return;
    this.#next = [];
    this.#bytes = 0;
    try {
      const answers = await this.#options.call(batch.map(({ asked }) => asked));
      batch.forEach(({ resolve, reject }, i) => {
        const answer = answers[i];
        if (answer === undefined) reject(new Error(`${answers.length} answers for ${batch.length}`));
        else resolve(answer);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
