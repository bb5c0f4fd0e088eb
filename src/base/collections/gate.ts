/** Lets only so many tasks run at the same time, in turn over those for whom they are. */
import { OwnersInTurn } from "./owners-in-turn.ts";

export class Gate {
  readonly #maxRunning: number;
  /** Each begins a task. */
  readonly #waiting = new OwnersInTurn<() => void>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /** @param owner for whom it is: each has its turn, however many tasks it has */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#maxRunning) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.add(owner, resolve));
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  /** Hands the place of a task that has ended to the next one. */
  #next(): void {
    const begin = this.#waiting.next();
    if (begin === undefined) this.#running -= 1;
    else begin();
  }
}
