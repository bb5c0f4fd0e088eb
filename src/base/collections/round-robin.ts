/** A queue of items by owner. Owners take turns: each turn removes one item. */
import { Fifo } from "./fifo.ts";

interface OwnerItems<T> {
  readonly owner: object;
  readonly queue: Fifo<T>;
}

export class RoundRobin<T> {
  readonly #byOwner = new WeakMap<object, OwnerItems<T>>();
  /** Owners with items, in the order of their next turns. */
  readonly #owners = new Fifo<OwnerItems<T>>();

  get isEmpty(): boolean {
    return this.#owners.length === 0;
  }

  /** Appends an item to its owner's queue. A new owner gets the last turn. */
  add(owner: object, value: T): void {
    let items = this.#byOwner.get(owner);
    if (items === undefined) {
      items = { owner, queue: new Fifo() };
      this.#byOwner.set(owner, items);
      this.#owners.push(items);
    }
    items.queue.push(value);
  }

  /** Removes and returns the next item; undefined when empty. */
  next(): T | undefined {
    const items = this.#owners.shift();
    if (items === undefined) return undefined;
    const value = items.queue.shift();
    if (items.queue.length > 0) this.#owners.push(items);
    else this.#byOwner.delete(items.owner);
    return value;
  }
}
