/** Limits the memory of concurrent decoding and encoding of images and audio in this process. Tasks start in order of arrival. */
import { type InRing, Ring } from "../base/collections/ring.ts";

/** A memory budget that images, audio and other users of memory share. */
export interface PictureBudget {
  /** Limit for a single task, in bytes. */
  readonly maxBytes: number;
  hasRoom(bytes: number): boolean;
  count(bytes: number): void;
  /** Calls the listener once, when bytes may have become free. */
  onceRoom(listener: () => void): void;
}

interface Waiting extends InRing<Waiting> {
  readonly bytes: number;
  begin(): void;
}

export class ByteGate {
  readonly #now: () => number;
  #budget: PictureBudget;
  readonly #waiting = new Ring<Waiting>();
  #bytes = 0;
  #running = 0;
  #movedAtMs = 0;

  constructor(maxBytes: number, now = () => performance.now()) {
    this.#now = now;
    this.#budget = this.#defaultBudget(maxBytes);
  }

  get load(): { readonly bytes: number; readonly waiting: number } {
    return { bytes: this.#bytes, waiting: this.#waiting.size };
  }

  /** Limit for a single task, in bytes. */
  get maxTaskBytes(): number {
    return this.#budget.maxBytes;
  }

  /** Milliseconds since a task last started, made progress or ended; 0 if no task is running. */
  get stuckForMs(): number {
    return this.#running === 0 ? 0 : this.#now() - this.#movedAtMs;
  }

  /** Running tasks call this when they make progress. It resets `stuckForMs`. */
  progressed(): void {
    this.#movedAtMs = this.#now();
  }

  /** Switches to another memory budget, and charges the running tasks to it. @returns a function that switches back */
  useBudget(budget: PictureBudget): () => void {
    const before = this.#budget;
    this.#moveTo(budget);
    return () => {
      if (this.#budget === budget) this.#moveTo(before);
    };
  }

  /**
   * Runs a task as soon as its bytes fit into the budget, or no other task runs.
   * @param bytes upper bound of the task's memory
   * @param signal called only if the task has to wait; an abort removes the task from the queue
   * @throws the signal's reason
   */
  async run<T>(bytes: number, task: () => Promise<T>, signal?: () => AbortSignal | undefined): Promise<T> {
    if (this.#waiting.size === 0 && this.#hasRoom(bytes)) this.#take(bytes);
    else await this.#turn(bytes, signal?.());
    try {
      return await task();
    } finally {
      this.#running -= 1;
      this.#movedAtMs = this.#now();
      this.#bytes -= bytes;
      this.#budget.count(-bytes);
      this.#next();
    }
  }

  #turn(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.delete(waiting);
      reject(signal?.reason);
      this.#next();
    };
    const begin = () => {
      signal?.removeEventListener("abort", leave);
      resolve();
    };
    const waiting: Waiting = { bytes, begin, ring: undefined, before: undefined, after: undefined };
    this.#waiting.add(waiting);
    signal?.addEventListener("abort", leave, { once: true });
    this.#budget.onceRoom(this.#next);
    return promise;
  }

  #take(bytes: number): void {
    this.#running += 1;
    this.#movedAtMs = this.#now();
    this.#bytes += bytes;
    this.#budget.count(bytes);
  }

  #hasRoom(bytes: number): boolean {
    return this.#running === 0 || this.#budget.hasRoom(bytes);
  }

  /**
   * Starts waiting tasks strictly in order. While the first one does not fit, all others wait: otherwise small tasks
   * could starve a large one.
   */
  readonly #next = (): void => {
    for (let first = this.#waiting.first; first !== undefined; first = this.#waiting.first) {
      if (!this.#hasRoom(first.bytes)) {
        this.#budget.onceRoom(this.#next);
        return;
      }
      this.#waiting.delete(first);
      this.#take(first.bytes);
      first.begin();
    }
  };

  #moveTo(budget: PictureBudget): void {
    this.#budget.count(-this.#bytes);
    this.#budget = budget;
    budget.count(this.#bytes);
    this.#next();
  }

  /**
   * The budget until `useBudget` sets a shared one. `onceRoom` does nothing, because the end of a task starts the next.
   */
  #defaultBudget(maxBytes: number): PictureBudget {
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      hasRoom: (bytes) => this.#bytes + bytes <= maxBytes,
      count() {},
      onceRoom() {},
    };
  }
}

/**
 * Upper bound of the bytes per pixel that `Bun.Image` uses: RGBA pixels, and an output buffer of the same size that
 * doubles as it grows. Measured: 10.4 for a PNG of 49 megapixels, 13.2 for a JPEG of 12.
 */
export const BYTES_PER_PIXEL = 14;
/**
 * Upper bound of the bytes for each resized row and column (filter weights, sums of a row). They matter only in very
 * long, narrow images.
 */
export const BYTES_PER_LINE = 64;

/**
 * Limits decoding and encoding in this process. The default of 512 MiB is enough for two photographs of 16 megapixels
 * at once.
 */
export const decodings = new ByteGate(512 * 2 ** 20);

/** Milliseconds without progress until tasks count as stuck. Decoding 50 megapixels takes a second or two. */
export const STUCK_MS = 30_000;
