/** Things in turn: the first is the next, and any of them can leave or go to the end at no more cost however many there are. */

/** What can be in a ring, one at a time: it holds its own place, so that coming and going cost neither memory nor a look-up. */
export interface InRing<T extends InRing<T>> {
  ring: Ring<T> | undefined;
  before: T | undefined;
  after: T | undefined;
}

/** A linked list through its members. */
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

  /** To the end; does nothing to one that is there. */
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

  /** Ends the turn of one that is there. */
  moveToEnd(member: T): void {
    if (member.ring !== this || member === this.#last) return;
    this.#unlink(member);
    this.#append(member);
  }

  /** Makes one that is there the next. */
  moveToStart(member: T): void {
    if (member.ring !== this || member === this.#first) return;
    this.#unlink(member);
    member.before = undefined;
    member.after = this.#first;
    if (this.#first === undefined) this.#last = member;
    else this.#first.before = member;
    this.#first = member;
  }

  /** In turn; the ring must not change meanwhile. */
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
