/** Bytes that one owner holds in the memory account until it disposes the charge. */
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

  /** Adds bytes to the charge; a negative number frees bytes. Does nothing after dispose. */
  grow(bytes: number): void {
    if (this.#isDisposed || bytes === 0) return;
    this.#bytes += bytes;
    this.#account.count(this.#part, bytes);
  }

  /** Adds bytes of a request body. @returns false, without adding them, if the account has no room */
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
