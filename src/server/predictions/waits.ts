/** Answers that are held back for the end of a prediction. */
import { type InRing, Ring } from "../../base/collections/ring.ts";
import type { LivePrediction } from "./live.ts";
import type { Client } from "./predictions.ts";

/** Polling interval of waiting requests. Most predictions end before the second poll, and then nothing was done for them but to write them down. */
const LOOK_MS = 50;

/** What is waited for. */
type Ending = Pick<LivePrediction, "isOver" | "onceOver" | "forgo">;

interface Wait extends InRing<Wait> {
  readonly client: Client;
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
  /** How often it was looked at; from the second time on its client is listened for. */
  looks: number;
  readonly done: () => void;
}

/** One timer for all: a timer and a listener for each request would cost more than all else about a small prediction. */
export class Waits {
  readonly #waits = new Ring<Wait>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Resolves when the prediction has ended, after about `waitMs`, or when the client has left, whichever comes first. */
  until(live: Ending, client: Client, waitMs: number): Promise<void> {
    if (live.isOver || waitMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        if (!this.#waits.delete(wait)) return;
        if (wait.looks > 1) {
          client.held(false);
          client.signal.removeEventListener("abort", done);
          live.forgo(done);
        }
        resolve();
      };
      const deadlineMs = performance.now() + waitMs;
      const wait: Wait = {
        client,
        deadlineMs,
        looks: 0,
        done,
        ring: undefined,
        before: undefined,
        after: undefined,
      };
      live.onceOver(done);
      this.#waits.add(wait);
      this.#timer ??= setTimeout(this.#look, LOOK_MS);
    });
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const wait of [...this.#waits]) {
      wait.looks += 1;
      if (wait.looks === 2) this.#listen(wait);
      if (wait.deadlineMs <= now) wait.done();
    }
    if (this.#waits.size > 0) this.#timer = setTimeout(this.#look, LOOK_MS);
  };

  #listen(wait: Wait): void {
    const { client, done } = wait;
    client.held(true);
    client.signal.addEventListener("abort", done);
    if (client.signal.aborted) done();
  }
}
