/** Predictions whose clients are gone, until the queue knows that nobody wants them: they are cancelled now, or when the queue is back. */
import type { Kind } from "../predictions/record.ts";

export interface ForsakenOne {
  readonly id: string;
  readonly kind: Kind;
  /** From then on, in `performance.now()` milliseconds, the queue ends it by itself. */
  readonly deadlineMs: number;
}

/** Of one call, which holds up everybody else's. */
const MAX_BATCH = 100;
/** Further ones run although nobody reads them: what is kept for a queue that is away has a bound. */
const MAX_KEPT = 10_000;

export class Forsaken {
  readonly #cancel: (ones: readonly ForsakenOne[]) => Promise<void>;
  #kept: ForsakenOne[] = [];
  #cancelling: Promise<void> | undefined;

  /** @param cancel of the queue; rejects while that is away */
  constructor(cancel: (ones: readonly ForsakenOne[]) => Promise<void>) {
    this.#cancel = cancel;
  }

  /** Resolves when it is cancelled, or is kept for later. */
  add(one: ForsakenOne): Promise<void> {
    if (this.#kept.length < MAX_KEPT) this.#kept.push(one);
    return this.cancelAll();
  }

  /** To be called from time to time; one call is under way at most. Never throws. */
  cancelAll(): Promise<void> {
    this.#cancelling ??= this.#cancelBatches().finally(() => {
      this.#cancelling = undefined;
    });
    return this.#cancelling;
  }

  async #cancelBatches(): Promise<void> {
    const now = performance.now();
    this.#kept = this.#kept.filter(({ deadlineMs }) => deadlineMs > now);
    while (this.#kept.length > 0) {
      const batch = this.#kept.slice(0, MAX_BATCH);
      try {
        await this.#cancel(batch);
      } catch {
        return;
      }
      this.#kept.splice(0, batch.length);
    }
  }
}
