/** What waits for its turn: one of each owner at a time, however many each has. */
import { Fifo } from "./fifo.ts";
import { type InRing, Ring } from "./ring.ts";

/** What one owner has. */
class Line<T> implements InRing<Line<T>> {
  ring: Ring<Line<T>> | undefined = undefined;
  before: Line<T> | undefined = undefined;
  after: Line<T> | undefined = undefined;
  readonly waiting = new Fifo<T>();
  readonly owner: object;

  constructor(owner: object) {
    this.owner = owner;
  }
}

export class OwnersInTurn<T> {
  readonly #lines = new WeakMap<object, Line<T>>();
  /** Those with something that waits. */
  readonly #turns = new Ring<Line<T>>();

  get isEmpty(): boolean {
    return this.#turns.first === undefined;
  }

  /** Behind what its owner has, and behind the first of each other owner. */
  add(owner: object, value: T): void {
    let line = this.#lines.get(owner);
    if (line === undefined) {
      line = new Line(owner);
      this.#lines.set(owner, line);
      this.#turns.add(line);
    }
    line.waiting.push(value);
  }

  /** Takes out what is next. */
  next(): T | undefined {
    const line = this.#turns.first;
    if (line === undefined) return undefined;
    const value = line.waiting.shift();
    if (line.waiting.length > 0) {
      this.#turns.moveToEnd(line);
    } else {
      this.#turns.delete(line);
      this.#lines.delete(line.owner);
    }
    return value;
  }
}
