/** Limits the number of concurrent tasks. Owners of waiting tasks take turns. */
import { Fifo } from "./fifo.ts";

export class Gate {
  readonly #maxRunning: number;
  /** Waiting tasks by owner, in the order of the owners' next turns. */
  readonly #waiting = new Map<object, Fifo<() => void>>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /** Whether the next task would have to wait. */
  get isFull(): boolean {
    return this.#running >= this.#maxRunning;
  }

  /** Whether a task runs. */
  get isInUse(): boolean {
    return this.#running > 0;
  }

  /**
   * Runs a task. While the maximum number of tasks runs, the task waits first.
   * @param owner waiting owners take turns, however many tasks each has
   */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (!this.isFull) this.#running += 1;
    else await this.#turn(owner);
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  #turn(owner: object): Promise<void> {
    const tasks = this.#waiting.get(owner) ?? new Fifo();
    this.#waiting.set(owner, tasks);
    return new Promise((resolve) => tasks.push(resolve));
  }

  /** Starts the next waiting task, if any, after a task has ended. */
  #next(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running -= 1;
      return;
    }
    const [owner, tasks] = next;
    this.#waiting.delete(owner);
    const begin = tasks.shift();
    if (tasks.length > 0) this.#waiting.set(owner, tasks);
    begin?.();
  }
}
