/** Memory for all files of one input. At most one input waits while it holds memory: two such inputs would deadlock. */
import { SconceError } from "../../base/errors.ts";
import { Charge } from "./charge.ts";
import type { MemoryAccount } from "./memory-account.ts";

/** Thrown when one of an input's files does not fit. The caller must free all files of the input. */
export class NoRoomNow extends Error {}

export class FileMemory implements Disposable {
  readonly #account: MemoryAccount;
  readonly #charges: readonly FileCharge[];
  readonly #isPatient: boolean;
  #requested = 0;

  /**
   * Creates an empty charge for each file.
   * @param count number of files
   * @param isPatient whether files wait for memory; true for at most one input with several files at a time
   */
  constructor(account: MemoryAccount, { count, isPatient }: { readonly count: number; readonly isPatient: boolean }) {
    this.#account = account;
    this.#isPatient = isPatient;
    this.#charges = Array.from({ length: count }, () => new FileCharge(this, account));
  }

  get bytes(): number {
    return this.#charges.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  charge(index: number): FileCharge | undefined {
    return this.#charges[index];
  }

  /** Bytes to assume for a file of unknown length, so that all files of the input fit. */
  get maxUnknownBytes(): number {
    return this.#account.maxFileBytes / this.#charges.length;
  }

  /** Charges a file. Only `FileCharge` calls this method. */
  async take(charge: Charge, bytes: number, signal: AbortSignal): Promise<void> {
    const { maxFileBytes } = this.#account;
    this.#requested += bytes;
    if (this.#requested > maxFileBytes) {
      const what = this.#charges.length === 1 ? "the file has" : "the files that are needed together have at least";
      throw new SconceError(
        "file_too_large",
        `${what} ${this.#requested} bytes; this server has room for ${Math.floor(maxFileBytes)} (--max-memory)`,
      );
    }
    const isNext = this.#charges.length > 1;
    if (this.#isPatient) await this.#account.takeInTurn(charge, bytes, { signal, isNext });
    else if (!this.#account.tryTakeInTurn(charge, bytes)) throw new NoRoomNow("there is no room for all files now");
  }

  [Symbol.dispose](): void {
    for (const charge of this.#charges) charge[Symbol.dispose]();
  }
}

export class FileCharge extends Charge {
  readonly #memory: FileMemory;

  constructor(memory: FileMemory, account: MemoryAccount) {
    super(account, "files");
    this.#memory = memory;
  }

  get maxUnknownBytes(): number {
    return this.#memory.maxUnknownBytes;
  }

  /**
   * Charges the expected size of the file.
   * @throws SconceError `file_too_large` for files that never fit; NoRoomNow if they do not fit now; the reason of the
   * signal
   */
  take(bytes: number, signal: AbortSignal): Promise<void> {
    return this.#memory.take(this, bytes, signal);
  }
}
