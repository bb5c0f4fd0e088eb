/** Lets requests wait for the end of a prediction, and ends the wait of a client that has disconnected. */
import { type InRing, Ring } from "../base/collections/ring.ts";
import type { Observed, Observer } from "./observed.ts";
import type { Client } from "./request.ts";

/** Milliseconds between checks of waiting requests. */
const POLL_MS = 50;

/** Makes the result of a wait: at the end of the prediction or of the wait, or when the client has disconnected. */
type ResultOf<P, T> = (prediction: P, client: Client) => T | Promise<T>;

const nothing = (): void => {};

/** A member of the list of waiting requests. */
interface Waiting extends InRing<Waiting> {
  poll(nowMs: number): void;
}

/** A waiting request. */
class Wait<P extends Observed, T> implements Waiting, Observer {
  ring: Ring<Waiting> | undefined = undefined;
  before: Waiting | undefined = undefined;
  after: Waiting | undefined = undefined;
  readonly #prediction: P;
  readonly #client: Client;
  /** End of the wait, in milliseconds of `performance.now()`. */
  readonly #deadlineMs: number;
  readonly #resultOf: ResultOf<P, T>;
  readonly #resolve: (result: T | Promise<T>) => void;
  /** Number of checks so far. */
  #polls = 0;

  constructor(
    prediction: P,
    client: Client,
    deadlineMs: number,
    resultOf: ResultOf<P, T>,
    resolve: (result: T | Promise<T>) => void,
  ) {
    this.#prediction = prediction;
    this.#client = client;
    this.#deadlineMs = deadlineMs;
    this.#resultOf = resultOf;
    this.#resolve = resolve;
  }

  /** Ends the wait at its deadline, or after the client has disconnected. */
  poll(nowMs: number): void {
    this.#polls += 1;
    // Most predictions end before the second check, and their requests need no abort signal.
    if (this.#polls === 2) this.#client.held(true);
    if (this.#deadlineMs <= nowMs || (this.#polls > 1 && this.#client.signal.aborted)) this.#end();
  }

  changed(): void {
    if (this.#prediction.isOver) this.#end();
  }

  #end(): void {
    if (this.ring?.delete(this) !== true) return;
    if (this.#polls > 1) this.#client.held(false);
    const prediction = this.#prediction;
    if (!prediction.isOver) prediction.unwatch(this);
    this.#resolve(this.#resultOf(prediction, this.#client));
  }
}

/** Waiting requests share one timer: a timer and a listener for each would cost more than a small prediction. */
export class Waits {
  readonly #waits = new Ring<Waiting>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Waits for the end of the prediction, about `waitMs` milliseconds, or until the client disconnects. */
  until(prediction: Observed, client: Client, waitMs: number): Promise<void> {
    if (waitMs <= 0) return Promise.resolve();
    return this.resultOf(prediction, client, performance.now() + waitMs, nothing);
  }

  /**
   * Waits like `until`, up to a time of `performance.now()`.
   * @param resultOf makes the result, which must not throw
   */
  resultOf<P extends Observed, T>(
    prediction: P,
    client: Client,
    deadlineMs: number,
    resultOf: ResultOf<P, T>,
  ): Promise<T> {
    if (prediction.isOver) return Promise.resolve(resultOf(prediction, client));
    // Promise.withResolvers() takes several times as long.
    return new Promise((resolve) => {
      const wait = new Wait(prediction, client, deadlineMs, resultOf, resolve);
      prediction.watch(wait);
      this.#waits.add(wait);
      this.#timer ??= setTimeout(this.#poll, POLL_MS);
    });
  }

  readonly #poll = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const wait of [...this.#waits]) wait.poll(now);
    if (this.#waits.size > 0) this.#timer = setTimeout(this.#poll, POLL_MS);
  };
}
