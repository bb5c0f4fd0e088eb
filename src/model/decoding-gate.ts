/** Lets pictures be decoded and encoded only so many bytes at once in this process, in the order in which they come. */

interface Waiting {
  readonly bytes: number;
  begin(): void;
}

export class ByteGate {
  readonly #maxBytes: number;
  readonly #waiting = new Set<Waiting>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of the tasks that run, and tasks that wait. */
  get load(): { readonly bytes: number; readonly waiting: number } {
    return { bytes: this.#bytes, waiting: this.#waiting.size };
  }

  /**
   * Runs a task when there is room for what it takes. One that is alone always runs.
   * @param bytes that the task takes at most
   */
  async run<T>(bytes: number, task: () => Promise<T>): Promise<T> {
    if (this.#waiting.size === 0 && this.#hasRoom(bytes)) {
      this.#bytes += bytes;
    } else {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add({ bytes, begin: resolve });
      await promise;
    }
    try {
      return await task();
    } finally {
      this.#bytes -= bytes;
      this.#next();
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#maxBytes;
  }

  /** The first one waits until there is room for it, and all others behind it: else a large one never had its turn. */
  #next(): void {
    for (const first of this.#waiting) {
      if (!this.#hasRoom(first.bytes)) return;
      this.#waiting.delete(first);
      this.#bytes += first.bytes;
      first.begin();
    }
  }
}

/**
 * Bytes that `Bun.Image` holds for each pixel at most while it decodes or encodes one: RGBA, and the same as a file in memory that doubles
 * as it grows. Measured: 10.4 for a PNG of 49 megapixels, 13.2 for a JPEG of 12.
 */
export const BYTES_PER_PIXEL = 16;

/** Two photographs of 16 megapixels, or many small pictures. */
export const decodings = new ByteGate(512 * 2 ** 20);
