/** Lets only so many tasks run at the same time, in turn over those for whom they are. */
import { Fifo } from "../collections/fifo.ts";
import { type InRing, Ring } from "../collections/ring.ts";

/** The tasks of one owner that wait. */
class Line implements InRing<Line> {
  ring: Ring<Line> | undefined = undefined;
  before: Line | undefined = undefined;
  after: Line | undefined = undefined;
  readonly tasks = new Fifo<() => void>();
  readonly owner: object;

  constructor(owner: object) {
    this.owner = owner;
  }
}

export class Gate {
  readonly #maxRunning: number;
  readonly #lines = new WeakMap<object, Line>();
  readonly #turns = new Ring<Line>();
  #running = 0;

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning;
  }

  /** @param owner for whom it is: each has its turn, however many tasks it has */
  async run<T>(owner: object, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#maxRunning) this.#running += 1;
    else await this.#turnOf(owner);
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  #turnOf(owner: object): Promise<void> {
    let line = this.#lines.get(owner);
    if (line === undefined) {
      line = new Line(owner);
      this.#lines.set(owner, line);
      this.#turns.add(line);
    }
    const { tasks } = line;
    return new Promise((resolve) => tasks.push(resolve));
  }

  /** Hands the place of a task that has ended to the next one. */
  #next(): void {
    const line = this.#turns.first;
    const begin = line?.tasks.shift();
    if (line === undefined || begin === undefined) {
      this.#running -= 1;
      return;
    }
    if (line.tasks.length > 0) {
      this.#turns.moveToEnd(line);
    } else {
      this.#turns.delete(line);
      this.#lines.delete(line.owner);
    }
    begin();
  }
}
