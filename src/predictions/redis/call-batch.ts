/** Combines the requests of one turn of the event loop into one call to Redis, up to a maximum of requests and bytes. */

export interface CallBatchOptions<T, R> {
  /** Sends the requests. @returns one answer for each request, in the same order */
  readonly call: (requests: readonly T[]) => Promise<readonly R[]>;
  readonly bytesOf?: (request: T) => number;
  /** Maximum requests of one call. */
  readonly maxCount?: number;
}

/** Maximum requests, by default, and bytes of one call, because the next call waits for it. */
const MAX_COUNT = 16;
const MAX_BYTES = 2 ** 20;

interface Waiting<T, R> {
  readonly request: T;
  readonly resolve: (answer: R) => void;
  readonly reject: (error: unknown) => void;
}

export class CallBatch<T, R> {
  readonly #options: CallBatchOptions<T, R>;
  #next: Waiting<T, R>[] = [];
  #bytes = 0;
  #isScheduled = false;

  constructor(options: CallBatchOptions<T, R>) {
    this.#options = options;
  }

  /** Adds a request to the next call. @throws the error of the call */
  ask(request: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#next.push({ request, resolve, reject });
      this.#bytes += this.#options.bytesOf?.(request) ?? 0;
      if (this.#next.length >= (this.#options.maxCount ?? MAX_COUNT) || this.#bytes >= MAX_BYTES) void this.#call();
      else if (!this.#isScheduled) {
        this.#isScheduled = true;
        setImmediate(() => {
          this.#isScheduled = false;
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
      const answers = await this.#options.call(batch.map(({ request }) => request));
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
