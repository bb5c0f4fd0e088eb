/** A doubly linked list. Members can be removed and moved in constant time. */

/** A member of at most one list. It stores its own links, so that adding and removing allocate nothing. */
export interface InRing<T extends InRing<T>> {
  ring: Ring<T> | undefined;
  before: T | undefined;
  after: T | undefined;
}

export class Ring<T extends InRing<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first;
  }

  get last(): T | undefined {
    return this.#last;
  }

  /** Appends a member; does nothing if the member is in this list already. */
  add(member: T): void {
    if (member.ring === this) return;
    if (member.ring !== undefined) throw new Error("a member of one ring cannot join another");
    member.ring = this;
    this.#size += 1;
    this.#append(member);
  }

  delete(member: T): boolean {
    if (member.ring !== this) return false;
    this.#unlink(member);
    member.ring = undefined;
    member.before = undefined;
    member.after = undefined;
    this.#size -= 1;
    return true;
  }

  moveToEnd(member: T): void {
    if (member.ring !== this || member === this.#last) return;
    this.#unlink(member);
    this.#append(member);
  }

  moveToStart(member: T): void {
    if (member.ring !== this || member === this.#first) return;
    this.#unlink(member);
    member.before = undefined;
    member.after = this.#first;
    if (this.#first === undefined) this.#last = member;
    else this.#first.before = member;
    this.#first = member;
  }

  /** Members in order. The list must not change during the iteration. */
  *[Symbol.iterator](): Generator<T> {
    for (let member = this.#first; member !== undefined; member = member.after) yield member;
  }

  #append(member: T): void {
    member.before = this.#last;
    member.after = undefined;
    if (this.#last === undefined) this.#first = member;
    else this.#last.after = member;
    this.#last = member;
  }

  #unlink({ before, after }: T): void {
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
  }
}
