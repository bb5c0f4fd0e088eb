/** Bytes that one owner holds in the memory account until it disposes the charge. */
import { SconceError } from "../../base/errors.ts";
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

  /** Adds bytes of a request body. @throws SconceError `queue_full` if the account has no room */
  mustGrow(bytes: number): void {
    if (!this.tryGrow(bytes)) throw memoryFull();
  }

  [Symbol.dispose](): void {
    this.grow(-this.#bytes);
    this.#isDisposed = true;
  }
}

/** The error of a request that is refused because --max-memory is reached. */
export function memoryFull(): SconceError {
  const message = "the server's memory is taken by other requests (--max-memory); try again later";
  return new SconceError("queue_full", message, { refusal: "memory" });
}
