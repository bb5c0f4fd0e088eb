/** Things in turn: the first is the next, and any of them can leave or go to the end at no more cost however many there are. */

interface Node<T> {
  readonly value: T;
  previous: Node<T> | undefined;
  next: Node<T> | undefined;
}

/**
 * A linked list with a look-up. (A `Set` keeps the order too, but finding its first element walks over the places of those that
 * were deleted, which makes a long queue slow.)
 */
export class Ring<T> implements Iterable<T> {
  readonly #nodes = new Map<T, Node<T>>();
  #first: Node<T> | undefined;
  #last: Node<T> | undefined;

  get size(): number {
    return this.#nodes.size;
  }

  get first(): T | undefined {
    return this.#first?.value;
  }

  /** To the end; does nothing to one that is there. */
  add(value: T): void {
    if (this.#nodes.has(value)) return;
    const node = { value, previous: undefined, next: undefined };
    this.#nodes.set(value, node);
    this.#append(node);
  }

  delete(value: T): boolean {
    const node = this.#nodes.get(value);
    if (node === undefined) return false;
    this.#nodes.delete(value);
    this.#unlink(node);
    return true;
  }

  /** Ends the turn of one that is there. */
  moveToEnd(value: T): void {
    const node = this.#nodes.get(value);
    if (node === undefined || node === this.#last) return;
    this.#unlink(node);
    this.#append(node);
  }

  /** In turn; the ring must not change meanwhile. */
  *[Symbol.iterator](): Generator<T> {
    for (let node = this.#first; node !== undefined; node = node.next) yield node.value;
  }

  #append(node: Node<T>): void {
    node.previous = this.#last;
    node.next = undefined;
    if (this.#last === undefined) this.#first = node;
    else this.#last.next = node;
    this.#last = node;
  }

  #unlink(node: Node<T>): void {
    if (node.previous === undefined) this.#first = node.next;
    else node.previous.next = node.next;
    if (node.next === undefined) this.#last = node.previous;
    else node.next.previous = node.previous;
  }
}
