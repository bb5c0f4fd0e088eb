/** Lets pictures be decoded and encoded only so many bytes at once in this process, in the order in which they come. */
import { type InRing, Ring } from "../collections/ring.ts";

/** Where the bytes of pictures are counted beside others. */
export interface PictureRoom {
  /** Most bytes of one picture. */
  readonly maxBytes: number;
  hasRoom(bytes: number): boolean;
  count(bytes: number): void;
  /** Calls back once, soon after there may be room. */
  onceRoom(listener: () => void): void;
}

interface Waiting extends InRing<Waiting> {
  readonly bytes: number;
  begin(): void;
}

export class ByteGate {
  readonly #now: () => number;
  #room: PictureRoom;
  readonly #waiting = new Ring<Waiting>();
  #bytes = 0;
  /** Tasks that run. */
  #running = 0;
  /** When a task began or ended the last time. */
  #movedAtMs = 0;

  constructor(maxBytes: number, now = () => performance.now()) {
    this.#now = now;
    this.#room = this.#ownRoom(maxBytes);
  }

  /** Bytes of the tasks that run, and tasks that wait. */
  get load(): { readonly bytes: number; readonly waiting: number } {
    return { bytes: this.#bytes, waiting: this.#waiting.size };
  }

  /** Most bytes that one task may take. */
  get maxTaskBytes(): number {
    return this.#room.maxBytes;
  }

  /** For how long tasks have been running of which none began or ended. */
  get stuckForMs(): number {
    return this.#running === 0 ? 0 : this.#now() - this.#movedAtMs;
  }

  /** From now on bytes are counted there; those of tasks that run move with them. @returns takes that back */
  countIn(room: PictureRoom): () => void {
    const before = this.#room;
    this.#moveTo(room);
    return () => {
      if (this.#room === room) this.#moveTo(before);
    };
  }

  /**
   * Runs a task when there is room for what it takes. One that is alone always runs.
   * @param bytes that the task takes at most
   * @param signal gives up its place while it waits; asked for only then
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
      this.#room.count(-bytes);
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
    this.#room.onceRoom(this.#next);
    return promise;
  }

  #take(bytes: number): void {
    this.#running += 1;
    this.#movedAtMs = this.#now();
    this.#bytes += bytes;
    this.#room.count(bytes);
  }

  #hasRoom(bytes: number): boolean {
    return this.#running === 0 || this.#room.hasRoom(bytes);
  }

  /** The first one waits until there is room for it, and all others behind it: else a large one never had its turn. */
  readonly #next = (): void => {
    for (let first = this.#waiting.first; first !== undefined; first = this.#waiting.first) {
      if (!this.#hasRoom(first.bytes)) {
        this.#room.onceRoom(this.#next);
        return;
      }
      this.#waiting.delete(first);
      this.#take(first.bytes);
      first.begin();
    }
  };

  #moveTo(room: PictureRoom): void {
    this.#room.count(-this.#bytes);
    this.#room = room;
    room.count(this.#bytes);
    this.#next();
  }

  /** Of a process that counts nothing else; whoever ends looks for who is next. */
  #ownRoom(maxBytes: number): PictureRoom {
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      hasRoom: (bytes) => this.#bytes + bytes <= maxBytes,
      count() {},
      onceRoom() {},
    };
  }
}

/**
 * Bytes that `Bun.Image` holds for each pixel at most while it decodes or encodes one: RGBA, and the same as a file in memory that doubles
 * as it grows. Measured: 10.4 for a PNG of 49 megapixels, 13.2 for a JPEG of 12.
 */
export const BYTES_PER_PIXEL = 14;
/** Of each row and column that are resampled at most: weights, and sums of one row. It counts where an image is one line. */
export const BYTES_PER_LINE = 64;

/** Without an account of memory: two photographs of 16 megapixels, or many small pictures. */
export const decodings = new ByteGate(512 * 2 ** 20);

/** Decoding a picture of 50 megapixels takes a second or two; threads that have ended none for so long are held by something else. */
export const STUCK_MS = 30_000;
