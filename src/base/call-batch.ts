/** Combines the requests of one turn of the event loop into one call, up to a maximum of requests and bytes. */

/** Larger requests have a separate call. */
const LARGE_VALUE_BYTES = 2 ** 20;

interface Waiting<T, R> {
  readonly request: T;
  readonly resolve: (answer: R) => void;
  readonly reject: (error: unknown) => void;
}

export class CallBatch<T extends { readonly bytes: number }, R> {
  readonly #maxCount: number;
  readonly #call: (requests: readonly T[]) => Promise<readonly R[]>;
  #next: Waiting<T, R>[] = [];
  #bytes = 0;
  #isScheduled = false;

  /** @param maxCount maximum requests of one call @param call sends requests, and resolves with one answer for each, in the same order */
  constructor(maxCount: number, call: (requests: readonly T[]) => Promise<readonly R[]>) {
    this.#maxCount = maxCount;
    this.#call = call;
  }

  /** Adds a request to the next call. A large request has its own call. @throws the error of the call */
  ask(request: T): Promise<R> {
    return new Promise((resolve, reject) => {
      const waiting = { request, resolve, reject };
      if (request.bytes > LARGE_VALUE_BYTES) return void this.#send([waiting]);
      this.#next.push(waiting);
      this.#bytes += request.bytes;
      if (this.#next.length >= this.#maxCount || this.#bytes >= LARGE_VALUE_BYTES) this.#sendNext();
      else if (!this.#isScheduled) {
        this.#isScheduled = true;
        setImmediate(() => {
          this.#isScheduled = false;
          this.#sendNext();
        });
      }
    });
  }

  #sendNext(): void {
    const batch = this.#next;
    this.#next = [];
    this.#bytes = 0;
    if (batch.length > 0) void this.#send(batch);
  }

  async #send(batch: readonly Waiting<T, R>[]): Promise<void> {
    try {
      const answers = await this.#call(batch.map(({ request }) => request));
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
