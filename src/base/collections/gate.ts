/** Limits the number of concurrent tasks. Owners of waiting tasks take turns. */
import { RoundRobin } from "./round-robin.ts";

export class Gate {
  readonly #maxRunning: number;
  /** Functions that start a waiting task. */
  readonly #waiting = new RoundRobin<() => void>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /** @param owner owners take turns, however many tasks each has */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#maxRunning) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.add(owner, resolve));
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  /** Starts the next waiting task in place of an ended task. */
  #next(): void {
    const begin = this.#waiting.next();
    if (begin === undefined) this.#running -= 1;
    else begin();
  }
}
