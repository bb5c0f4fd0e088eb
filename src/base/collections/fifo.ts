/** A queue that costs the same however long it is. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  /** @param index 0 is the first that is left */
  at(index: number): T | undefined {
    return this.#items[this.#head + index];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (this.#head === this.#items.length) return undefined;
    // What was taken is not held.
    this.#items[this.#head] = undefined;
    this.#head += 1;
    // Dropping the used half now and then keeps a shift cheap.
    if (this.#head > 32 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** All that is left, in order. */
  rest(): T[] {
    return this.#items.slice(this.#head).filter((item) => item !== undefined);
  }
}
