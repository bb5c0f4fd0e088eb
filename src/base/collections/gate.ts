/** Limits the number of concurrent tasks. Owners of waiting tasks take turns. */
import { RoundRobin } from "./round-robin.ts";

export class Gate {
  readonly #maxRunning: number;
  readonly #waiting = new RoundRobin<() => void>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /** Whether the next task would have to wait. */
  get isFull(): boolean {
    return this.#running >= this.#maxRunning;
  }

  /**
   * Runs a task. While the maximum number of tasks runs, the task waits first.
   * @param owner waiting owners take turns, however many tasks each has
   */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (!this.isFull) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.add(owner, resolve));
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  /** Starts the next waiting task, if any, after a task has ended. */
  #next(): void {
    const begin = this.#waiting.next();
    if (begin === undefined) this.#running -= 1;
    else begin();
  }
}
