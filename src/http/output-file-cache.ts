/** Keeps decoded files of outputs in memory between requests: a player of a video sends many requests for ranges of one file. */
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";

export interface OutputFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<"Content-Type" | "Content-Disposition" | "ETag", string>>;
}

/** Time in milliseconds without a request after which the files are dropped. */
const IDLE_MS = 10_000;
/** Limit for the bytes of all files, as a fraction of the memory for results. */
const OF_RESULTS = 1 / 4;

interface Kept {
  readonly file: OutputFile;
  readonly charge: Charge;
}

export class OutputFileCache {
  readonly #memory: MemoryAccount;
  /** Files by key, the file whose last use is the oldest first. */
  readonly #kept = new Map<string, Kept>();
  readonly #opening = new Map<string, Promise<OutputFile>>();
  #bytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(memory: MemoryAccount) {
    this.#memory = memory;
    memory.onPressure(() => this.#clear());
  }

  /**
   * Finds a file, or opens it. Requests at the same time share one `open`.
   * @param key names the file and its owner. The bytes of a key never change.
   */
  async file(key: string, open: () => Promise<OutputFile>): Promise<OutputFile> {
    const kept = this.#kept.get(key);
    if (kept !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      this.#clearLater();
      return kept.file;
    }
    let opening = this.#opening.get(key);
    if (opening === undefined) {
      opening = open().finally(() => this.#opening.delete(key));
      this.#opening.set(key, opening);
      opening.then(
        (file) => this.#keep(key, file),
        () => {},
      );
    }
    return opening;
  }

  #keep(key: string, file: OutputFile): void {
    const { length } = file.bytes;
    const maxBytes = OF_RESULTS * this.#memory.maxResultBytes;
    if (length > maxBytes) return;
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes + length <= maxBytes) break;
      this.#drop(oldest);
    }
    this.#bytes += length;
    this.#kept.set(key, { file, charge: this.#memory.add("results", length) });
    this.#clearLater();
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    this.#kept.delete(key);
    this.#bytes -= kept.file.bytes.length;
    kept.charge[Symbol.dispose]();
  }

  #clear(): void {
    for (const key of this.#kept.keys()) this.#drop(key);
  }

  #clearLater(): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.#clear(), IDLE_MS).unref();
    else this.#timer.refresh();
  }
}
