/** Sends entries to Redis in batches, again and again until Redis acknowledges an entry or the entry expires. */

export interface RetryEntry {
  readonly bytes: number;
  /** Time after which a failed entry is dropped, in milliseconds of `performance.now()`. */
  readonly expiresMs: number;
}

export interface RetryQueueOptions<T> {
  /** Sends a batch. Rejects while Redis is unavailable. */
  readonly send: (batch: readonly T[]) => Promise<void>;
  /** Called for each entry that Redis has acknowledged, or that has expired. */
  readonly onSettled?: (entry: T) => void;
  /** Called when the queue has become empty. */
  readonly onEmpty?: () => void;
  /** Maximum entries in the queue. Entries above it are dropped. */
  readonly maxCount?: number;
}

/** Maximum entries and bytes of one call, because the next call waits for it. */
const MAX_BATCH = 64;
const MAX_BATCH_BYTES = 2 ** 20;
const RETRY_MS = 200;

export class RetryQueue<T extends RetryEntry> {
  readonly #options: RetryQueueOptions<T>;
  readonly #entries: T[] = [];
  #sending: Promise<void> | undefined;

  constructor(options: RetryQueueOptions<T>) {
    this.#options = options;
  }

  /** Adds an entry. All entries of one turn of the event loop form a batch, up to a maximum of entries and bytes. */
  add(entry: T): void {
    if (this.#entries.length >= (this.#options.maxCount ?? Infinity)) return;
    this.#entries.push(entry);
    this.#sending ??= this.#sendAll();
  }

  /** Resolves when the queue is empty. */
  async flush(): Promise<void> {
    await this.#sending;
  }

  async #sendAll(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    const { send, onSettled, onEmpty } = this.#options;
    while (this.#entries.length > 0) {
      const batch = this.#entries.splice(0, this.#nextCount());
      try {
        await send(batch);
        for (const entry of batch) onSettled?.(entry);
      } catch {
        const now = performance.now();
        // Failed entries move to the end of the queue, because Redis may accept the others.
        for (const entry of batch) {
          if (entry.expiresMs < now) onSettled?.(entry);
          else this.#entries.push(entry);
        }
        await Bun.sleep(RETRY_MS);
      }
    }
    this.#sending = undefined;
    onEmpty?.();
  }

  #nextCount(): number {
    let bytes = 0;
    const count = this.#entries.findIndex((entry, i) => {
      bytes += entry.bytes;
      return i > 0 && (i === MAX_BATCH || bytes > MAX_BATCH_BYTES);
    });
    return count < 0 ? this.#entries.length : count;
  }
}
