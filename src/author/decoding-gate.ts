/**
 * Limits the decoding and encoding of images and audio in this process: their number, and their memory. Models take
 * turns, so a model with many waiting pictures does not delay the pictures of another.
 *
 * The code of `preprocess` after `await image.pixels()` runs on the thread that answers requests. If many pictures are
 * ready at once, this code runs over several turns of the event loop.
 */

import { drainMicrotasks } from "bun:jsc";
import { availableParallelism } from "node:os";
import { LoopWork } from "../base/loop-work.ts";

/** A memory budget that images, audio and other users of memory share. */
export interface PictureBudget {
  /** Limit for a single task, in bytes. */
  readonly maxBytes: number;
  hasRoom(bytes: number): boolean;
  count(bytes: number): void;
  /** Calls the listener once, when bytes may have become free. */
  onceRoom(listener: () => void): void;
}

interface Waiting {
  readonly bytes: number;
  begin(): void;
}

/**
 * Maximum tasks in progress at once. A task is in progress until the code behind it has a turn of the event loop. With
 * two pictures for each core, the throughput of small pictures was a fifth lower.
 */
const MAX_RUNNING = 8 * availableParallelism();

export class DecodingGate {
  readonly #maxRunning: number;
  readonly #work = new LoopWork();
  /** Waiting tasks by owner, in the order of the owners' next turns. */
  readonly #waiting = new Map<object, Set<Waiting>>();
  #budget: PictureBudget;
  #bytes = 0;
  #running = 0;
  #movedAtMs = 0;

  constructor(maxBytes: number, maxRunning = MAX_RUNNING) {
    this.#maxRunning = maxRunning;
    this.#budget = this.#defaultBudget(maxBytes);
  }

  get load(): { readonly bytes: number; readonly waiting: number } {
    return { bytes: this.#bytes, waiting: this.#waiting.values().reduce((sum, { size }) => sum + size, 0) };
  }

  /** Limit for a single task, in bytes. */
  get maxTaskBytes(): number {
    return this.#budget.maxBytes;
  }

  /** Milliseconds since a task last started, made progress or ended; 0 if no task is running. */
  get stuckForMs(): number {
    return this.#running === 0 ? 0 : performance.now() - this.#movedAtMs;
  }

  /** Running tasks call this when they make progress. It resets `stuckForMs`. */
  progressed(): void {
    this.#movedAtMs = performance.now();
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
   * Runs a task as soon as its bytes fit into the budget, or no other task runs. The code after `await` runs in a later
   * turn of the event loop.
   * @param owner waiting owners take turns, however many tasks each has
   * @param bytes upper bound of the task's memory
   * @param signal called only if the task has to wait; an abort removes the task from the queue
   * @throws the signal's reason, or the error of the task
   */
  async run<T>(
    owner: object,
    bytes: number,
    task: () => Promise<T>,
    signal?: () => AbortSignal | undefined,
  ): Promise<T> {
    if (this.#waiting.size === 0 && this.#hasRoom(bytes)) this.#take(bytes);
    else await this.#turn(owner, bytes, signal?.());
    try {
      return await task();
    } finally {
      this.progressed();
      await new Promise<void>((resolve) => {
        this.#work.add(() => {
          resolve();
          // Runs the code that awaits the task, so that its time counts for this turn.
          drainMicrotasks();
        });
      });
      this.#running -= 1;
      this.#bytes -= bytes;
      this.#budget.count(-bytes);
      this.#next();
    }
  }

  #turn(owner: object, bytes: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#remove(owner, waiting);
      reject(signal?.reason);
      this.#next();
    };
    const waiting: Waiting = {
      bytes,
      begin() {
        signal?.removeEventListener("abort", leave);
        resolve();
      },
    };
    this.#waiting.set(owner, (this.#waiting.get(owner) ?? new Set()).add(waiting));
    signal?.addEventListener("abort", leave, { once: true });
    this.#budget.onceRoom(this.#next);
    return promise;
  }

  #remove(owner: object, waiting: Waiting): void {
    const tasks = this.#waiting.get(owner);
    tasks?.delete(waiting);
    if (tasks?.size === 0) this.#waiting.delete(owner);
  }

  #take(bytes: number): void {
    this.#running += 1;
    this.progressed();
    this.#bytes += bytes;
    this.#budget.count(bytes);
  }

  #hasRoom(bytes: number): boolean {
    return this.#running === 0 || (this.#running < this.#maxRunning && this.#budget.hasRoom(bytes));
  }

  /**
   * Starts waiting tasks strictly in order. While the first one does not fit, all others wait: otherwise small tasks
   * could starve a large one.
   */
  readonly #next = (): void => {
    for (const [owner, tasks] of this.#waiting) {
      const [first] = tasks;
      if (first === undefined) continue;
      if (!this.#hasRoom(first.bytes)) {
        this.#budget.onceRoom(this.#next);
        return;
      }
      this.#remove(owner, first);
      // The owner's next task waits behind the tasks of the other owners.
      if (this.#waiting.delete(owner)) this.#waiting.set(owner, tasks);
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
export const decodings = new DecodingGate(512 * 2 ** 20);

/** Milliseconds without progress until tasks count as stuck. Decoding 50 megapixels takes a second or two. */
export const STUCK_MS = 30_000;
