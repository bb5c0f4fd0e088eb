/** Bytes of the memory account with one owner, who disposes the charge. */
import type { MemoryAccount, Part } from "./memory-account.ts";

export class Charge implements Disposable {
  readonly #account: MemoryAccount;
  readonly #part: Part;
  #bytes = 0;
  #isDisposed = false;

  constructor(account: MemoryAccount, part: Part) {
    this.#account = account;
    this.#part = part;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds bytes, or frees a negative number. Does nothing after dispose. */
  grow(bytes: number): void {
    if (this.#isDisposed || bytes === 0) return;
    this.#bytes += bytes;
    this.#account.count(this.#part, bytes);
  }

  /** Adds bytes of a body. @returns false if the account has no room */
  tryGrow(bytes: number): boolean {
    if (!this.#account.hasRoom("bodies", bytes, this.#bytes)) return false;
    this.grow(bytes);
    return true;
  }

  [Symbol.dispose](): void {
    this.grow(-this.#bytes);
    this.#isDisposed = true;
  }
}
