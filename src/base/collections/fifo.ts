/** A first-in, first-out queue. `push` and `shift` take constant time on average, at any length. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  get last(): T | undefined {
    return this.#items.at(-1);
  }

  /** Adds an item before the items for which `isBehind` is true, which are the last ones. */
  insert(item: T, isBehind: (other: T) => boolean): void {
    let [from, to] = [this.#head, this.#items.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const other = this.#items[middle];
      if (other !== undefined && isBehind(other)) to = middle;
      else from = middle + 1;
    }
    this.#items.splice(from, 0, item);
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (this.#head === this.#items.length) return undefined;
    // Drops the reference, so that the garbage collector can free the item.
    this.#items[this.#head] = undefined;
    this.#head += 1;
    // Removes shifted items only when they are over half of the array, so that a shift takes constant time on average.
    if (this.#head > 32 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Removes the items that match. @returns the removed items, in order */
  remove(matches: (item: T) => boolean): T[] {
    const items = this.rest();
    const removed = items.filter(matches);
    if (removed.length > 0) {
      this.#items = items.filter((item) => !matches(item));
      this.#head = 0;
    }
    return removed;
  }

  /** The items in the queue, in order. */
  rest(): T[] {
    return this.#items.slice(this.#head).filter((item) => item !== undefined);
  }
}
