/** Bytes of the account of memory that something holds, until it is disposed. */
import type { MemoryAccount, Part } from "./memory-account.ts";

export class Charge implements Disposable {
  readonly #account: MemoryAccount;
  readonly #part: Part;
  #bytes = 0;
  #isOver = false;

  constructor(account: MemoryAccount, part: Part) {
    this.#account = account;
    this.#part = part;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds to it, or gives a part of it back. Once it was disposed nothing is counted any more. */
  grow(bytes: number): void {
    if (this.#isOver || bytes === 0) return;
    this.#bytes += bytes;
    this.#account.count(this.#part, bytes);
  }

  /** Adds to that of a body where there is room; false where there is none. */
  tryGrow(bytes: number): boolean {
    if (!this.#account.hasRoom("bodies", bytes, this.#bytes)) return false;
    this.grow(bytes);
    return true;
  }

  [Symbol.dispose](): void {
    this.grow(-this.#bytes);
    this.#isOver = true;
  }
}
