/** Memory for all files of one input. An input that waits for memory holds no memory, so that inputs cannot deadlock. */
import { SconceError } from "../../base/errors.ts";
import { type Charge, memoryFull } from "./charge.ts";
import type { MemoryAccount } from "./memory-account.ts";

export class FileMemory implements Disposable {
  readonly #account: MemoryAccount;
  readonly #count: number;
  readonly #charge: Charge;
  #reservation: Promise<void> | undefined;
  #needed = 0;

  /** @param count number of files */
  constructor(account: MemoryAccount, count: number) {
    this.#account = account;
    this.#count = count;
    this.#charge = account.add("files", 0);
  }

  get bytes(): number {
    return this.#charge.bytes;
  }

  /** Bytes to assume for a file of unknown length, so that all files of the input fit. */
  get maxUnknownBytes(): number {
    return this.#account.maxFileBytes / this.#count;
  }

  /**
   * Takes memory for a file. The first file waits until there is memory for all files. It assumes that all files have
   * its size.
   * @throws SconceError `file_too_large` for files that never fit, `queue_full` if larger files follow and there is no
   * memory now; the reason of the signal
   */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    const { maxFileBytes } = this.#account;
    this.#needed += bytes;
    if (this.#needed > maxFileBytes) {
      const what = this.#count === 1 ? "the file has" : "the files that are needed together have at least";
      throw new SconceError(
        "file_too_large",
        `${what} ${this.#needed} bytes; this server has room for ${Math.floor(maxFileBytes)} (--max-memory)`,
      );
    }
    this.#reservation ??= this.#account.takeInTurn(this.#charge, Math.min(maxFileBytes, this.#count * bytes), signal);
    await this.#reservation;
    const missing = this.#needed - this.#charge.bytes;
    if (missing > 0 && !this.#account.hasRoom("outputs", missing)) throw memoryFull();
    this.resize(0);
  }

  /** Corrects the size of a file while it is read. */
  resize(change: number): void {
    this.#needed += change;
    this.#charge.grow(Math.max(0, this.#needed - this.#charge.bytes));
  }

  /** Frees reserved memory that the files did not need. Called after all files were read. */
  settle(): void {
    this.#charge.grow(this.#needed - this.#charge.bytes);
  }

  [Symbol.dispose](): void {
    this.#charge[Symbol.dispose]();
  }
}
