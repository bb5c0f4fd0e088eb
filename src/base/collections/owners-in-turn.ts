/** A queue in which owners take turns: each turn gives one item of an owner. */
import { Fifo } from "./fifo.ts";
import { type InRing, Ring } from "./ring.ts";

/** The items of one owner. */
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
  /** Owners with items, in turn order. */
  readonly #turns = new Ring<Line<T>>();

  get isEmpty(): boolean {
    return this.#turns.first === undefined;
  }

  /** Adds an item behind the owner's other items. A new owner gets the last turn. */
  add(owner: object, value: T): void {
    let line = this.#lines.get(owner);
    if (line === undefined) {
      line = new Line(owner);
      this.#lines.set(owner, line);
      this.#turns.add(line);
    }
    line.waiting.push(value);
  }

  /** Removes and returns the next item. */
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
