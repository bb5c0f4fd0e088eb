/** Lets requests wait for the end of a prediction. */
import { type InRing, Ring } from "../base/collections/ring.ts";
import type { Observed } from "./observed.ts";
import type { Client } from "./request.ts";

/** Milliseconds between checks of waiting requests. Most predictions end before the second, which adds listeners. */
const POLL_MS = 50;

interface Wait extends InRing<Wait> {
  readonly client: Client;
  /** End of the wait, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** Number of checks so far. The second check adds an abort listener. */
  polls: number;
  readonly done: () => void;
}

/** Waiting requests share one timer: a timer and a listener for each would cost more than a small prediction. */
export class Waits {
  readonly #waits = new Ring<Wait>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Waits for the end of the prediction, about `waitMs` milliseconds, or until the client disconnects. */
  until(prediction: Observed, client: Client, waitMs: number): Promise<void> {
    if (prediction.isOver || waitMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        if (!this.#waits.delete(wait)) return;
        if (wait.polls > 1) {
          client.held(false);
          client.signal.removeEventListener("abort", done);
          prediction.removeWaiter(done);
        }
        resolve();
      };
      const deadlineMs = performance.now() + waitMs;
      const wait: Wait = { client, deadlineMs, polls: 0, done, ring: undefined, before: undefined, after: undefined };
      prediction.onceOver(done);
      this.#waits.add(wait);
      this.#timer ??= setTimeout(this.#poll, POLL_MS);
    });
  }

  readonly #poll = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const wait of [...this.#waits]) {
      wait.polls += 1;
      if (wait.polls === 2) this.#listen(wait);
      if (wait.deadlineMs <= now) wait.done();
    }
    if (this.#waits.size > 0) this.#timer = setTimeout(this.#poll, POLL_MS);
  };

  #listen(wait: Wait): void {
    const { client, done } = wait;
    client.held(true);
    client.signal.addEventListener("abort", done);
    if (client.signal.aborted) done();
  }
}
