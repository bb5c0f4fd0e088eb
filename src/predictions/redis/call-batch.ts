/** Combines the requests of one turn of the event loop into one call to Redis, up to a maximum of requests and bytes. */

/** Maximum bytes of one call, because the next call waits for it. */
const MAX_BYTES = 2 ** 20;

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

  /** Adds a request to the next call. @throws the error of the call */
  ask(request: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#next.push({ request, resolve, reject });
      this.#bytes += request.bytes;
      if (this.#next.length >= this.#maxCount || this.#bytes >= MAX_BYTES) void this.#send();
      else if (!this.#isScheduled) {
        this.#isScheduled = true;
        setImmediate(() => {
          this.#isScheduled = false;
          void this.#send();
        });
      }
    });
  }

  async #send(): Promise<void> {
    const batch = this.#next;
    if (batch.length === 0) return;
    this.#next = [];
    this.#bytes = 0;
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
