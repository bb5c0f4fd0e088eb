/** Answers that are held back for the end of a prediction. */
import type { PredictionRecord } from "../serving/record.ts";

/** How often those that wait are looked at. Most predictions end sooner, and then nothing was done for them but to write them down. */
const LOOK_MS = 50;

/** Told when an answer has begun to be held back for long, and when that ends: its connection is silent, but not idle. */
export type OnHold = (request: Request, isHeld: boolean) => void;

interface Held {
  readonly request: Request;
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
  /** Whether it was looked at before: from then on its client is listened for. */
  isLong: boolean;
  readonly done: () => void;
}

/**
 * One timer for all: a timer and a listener for each request would cost more than all else about a small prediction.
 */
export class HeldAnswers {
  readonly #held = new Set<Held>();
  readonly #onHold: OnHold;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(onHold: OnHold) {
    this.#onHold = onHold;
  }

  /** Resolves when the prediction has ended, after about `waitMs`, or when the client has left, whichever comes first. */
  until(record: PredictionRecord, request: Request, waitMs: number): Promise<void> {
    if (record.isOver || waitMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        if (!this.#held.delete(held)) return;
        if (held.isLong) {
          this.#onHold(request, false);
          request.signal.removeEventListener("abort", done);
          record.forgo(done);
        }
        resolve();
      };
      const held: Held = { request, deadlineMs: performance.now() + waitMs, isLong: false, done };
      record.onceOver(done);
      this.#held.add(held);
      this.#timer ??= setTimeout(this.#look, LOOK_MS);
    });
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const held of this.#held) {
      if (!held.isLong) this.#listen(held);
      if (held.deadlineMs <= now) held.done();
    }
    if (this.#held.size > 0) this.#timer = setTimeout(this.#look, LOOK_MS);
  };

  #listen(held: Held): void {
    held.isLong = true;
    const { signal } = held.request;
    this.#onHold(held.request, true);
    signal.addEventListener("abort", held.done);
    if (signal.aborted) held.done();
  }
}
