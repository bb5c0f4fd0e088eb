/** Limits the number of concurrent tasks. When tasks wait, their owners take turns. */
import { RoundRobin } from "./round-robin.ts";

export class Gate {
  readonly #maxRunning: number;
  /** Functions that start a waiting task, by owner. */
  readonly #waiting = new RoundRobin<() => void>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /**
   * Runs a task, or waits until fewer than the maximum run.
   * @param owner waiting owners take turns, however many tasks each has
   */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#maxRunning) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.add(owner, resolve));
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  /** Starts the next waiting task in place of a finished task. */
  #next(): void {
    const begin = this.#waiting.next();
    if (begin === undefined) this.#running -= 1;
    else begin();
  }
}
