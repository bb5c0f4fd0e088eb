/** A queue in which owners take turns. Each turn removes one item. */
import { Fifo } from "./fifo.ts";
import { type InRing, Ring } from "./ring.ts";

/** The queued items of one owner. */
class OwnerItems<T> implements InRing<OwnerItems<T>> {
  ring: Ring<OwnerItems<T>> | undefined = undefined;
  before: OwnerItems<T> | undefined = undefined;
  after: OwnerItems<T> | undefined = undefined;
  readonly queue = new Fifo<T>();
  readonly owner: object;

  constructor(owner: object) {
    this.owner = owner;
  }
}

export class RoundRobin<T> {
  readonly #byOwner = new WeakMap<object, OwnerItems<T>>();
  /** Owners with items, in the order of their next turns. */
  readonly #owners = new Ring<OwnerItems<T>>();

  get isEmpty(): boolean {
    return this.#owners.first === undefined;
  }

  /** Appends an item to its owner's queue. A new owner gets the last turn. */
  add(owner: object, value: T): void {
    let items = this.#byOwner.get(owner);
    if (items === undefined) {
      items = new OwnerItems(owner);
      this.#byOwner.set(owner, items);
      this.#owners.add(items);
    }
    items.queue.push(value);
  }

  /** Removes and returns the next item; undefined when empty. */
  next(): T | undefined {
    const items = this.#owners.first;
    if (items === undefined) return undefined;
    const value = items.queue.shift();
    if (items.queue.length > 0) {
      this.#owners.moveToEnd(items);
    } else {
      this.#owners.delete(items);
      this.#byOwner.delete(items.owner);
    }
    return value;
  }
}
