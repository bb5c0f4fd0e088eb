/** Bytes that one owner holds in the memory account until it disposes the charge. */
import { SconceError } from "../../base/errors.ts";

/**
 * Uses of memory. bodies: request bodies and parsed inputs. files: fetched files, also partial ones. pictures: pictures
 * that are being decoded or encoded. tensors: input tensors before their batch, and output rows before `postprocess`.
 * outputs: outputs and logs of unfinished predictions. results: retained results, and undelivered webhooks. answers:
 * answers that are being sent.
 */
export const parts = ["bodies", "files", "pictures", "tensors", "outputs", "results", "answers"] as const;
export type Part = (typeof parts)[number];

/** Counts the bytes of all charges. */
export interface Account {
  count(part: Part, bytes: number): void;
  hasRoom(part: "bodies", bytes: number, heldBytes: number): boolean;
}

export class Charge implements Disposable {
  readonly #account: Account;
  readonly #part: Part;
  #bytes = 0;
  #isDisposed = false;

  constructor(account: Account, part: Part) {
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
