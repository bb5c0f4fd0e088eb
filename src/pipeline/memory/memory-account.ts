/** Counts the bytes that a server holds for clients, in counters that all its processes share. */
import { gcAndSweep } from "bun:jsc";
import type { PictureBudget } from "../../author/decoding-gate.ts";
import type { SharedCounter } from "../../machine/processes/shared-counters.ts";
import { type Account, Charge, type Part } from "./charge.ts";

/** Fraction of the limit that pictures may always use. The limits of other uses do not count pictures. */
const PICTURES = 0.35;

/** Fraction of the limit that fetched files may always use. The files of one input may use all of it. */
const FILES = 0.25;

/**
 * Each use is refused or waits when the account is filled above its fraction of the limit. Later stages have higher
 * fractions, so that accepted predictions can end.
 */
const fullAt = {
  bodies: 0.4,
  files: 0.5,
  tensors: 0.55,
  outputs: 0.65,
  answers: 0.65,
} as const;
type Asking = keyof typeof fullAt;

/** Bodies may fill 0.4 of the limit, and retained results take at most 0.25 of it. */
const MOSTLY_FREE = 0.1;

/**
 * A request for at most this fraction of the free memory succeeds above `fullAt`, too. Large requests then cannot
 * starve small ones (dynamic thresholds of shared buffers: Choudhury and Hahne, 1998). Files and tensors wait instead.
 */
const OF_FREE = 1 / 256;

/**
 * Fraction of the limit that counts as free for small outputs even in a full account, so that accepted predictions can
 * end.
 */
const FREE_FOR_OUTPUTS = 1 / 16;

/** Charged bytes for a byte of an output: two for the UTF-16 string, and one for the copy that is being sent. */
export const HELD_PER_OUTPUT_BYTE = 3;

/** Charged bytes for a byte of a tensor: the front's copy for a second run, the engine's copy, and the batch. */
export const HELD_PER_TENSOR_BYTE = 3;

type Counter = Pick<SharedCounter, "sum" | "add">;

export interface MemoryAccountOptions {
  /** Limit of the account in bytes. Default: unlimited. */
  readonly maxBytes?: number;
  /**
   * Counters in memory that `count` processes share; `held` counts all uses except pictures and results. Default: one
   * process.
   */
  readonly shared?: { readonly count: number } & Readonly<Record<"held" | "pictures" | "results", Counter>>;
}

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** Polling interval in milliseconds while a file waits: other processes free memory without a notification. */
const POLL_MS = 50;

/** Least garbage, in bytes, for a garbage collection, which takes milliseconds. */
const MIN_GARBAGE = 16 * 2 ** 20;

export class MemoryAccount implements Account {
  readonly maxBytes: number;
  readonly #held: Counter;
  readonly #pictures: Counter;
  readonly #results: Counter;
  readonly #processes: number;
  readonly #parts: Record<Part, number> = {
    bodies: 0,
    files: 0,
    pictures: 0,
    tensors: 0,
    outputs: 0,
    results: 0,
    answers: 0,
  };
  readonly #relievers = new Set<() => void>();
  /** Callbacks for the next time that memory is freed. */
  readonly #listeners = new Set<() => void>();
  readonly #waiters: Waiter[] = [];
  #willWake = false;
  /** Bytes freed since the last garbage collection. */
  #garbage = 0;
  #poll: ReturnType<typeof setTimeout> | undefined;

  constructor({ maxBytes = Number.POSITIVE_INFINITY, shared }: MemoryAccountOptions = {}) {
    this.maxBytes = maxBytes;
    this.#held = shared?.held ?? new LocalCounter();
    this.#pictures = shared?.pictures ?? new LocalCounter();
    this.#results = shared?.results ?? new LocalCounter();
    this.#processes = shared?.count ?? 1;
  }

  /** Bytes that this process holds, for each use of memory (part). */
  get parts(): Readonly<Record<Part, number>> {
    return this.#parts;
  }

  /** Bytes that all processes hold together. */
  get used(): number {
    return this.#held.sum() + this.#pictures.sum() + this.#results.sum();
  }

  get maxResultBytes(): number {
    return this.maxBytes / 4 / this.#processes;
  }

  get pictures(): PictureBudget {
    return {
      maxBytes: (PICTURES * this.maxBytes) / this.#processes,
      hasRoom: (bytes) => this.#hasRoomForPicture(bytes),
      count: (bytes) => this.count("pictures", bytes),
      onceRoom: (listener) => this.onceRoom(listener),
    };
  }

  /** Maximum bytes for all files of one input. Files of this size fit if no other files are in memory. */
  get maxFileBytes(): number {
    return (FILES * this.maxBytes) / this.#processes;
  }

  /** Maximum bytes for the outputs of one prediction. Larger outputs are refused even if memory is empty. */
  get maxOutputBytes(): number {
    return (fullAt.outputs * this.maxBytes) / HELD_PER_OUTPUT_BYTE;
  }

  get isOver(): boolean {
    return this.used > this.maxBytes;
  }

  /**
   * Whether so little is held that slow uploads may take as long as they like: even with retained results, they leave
   * room for other bodies.
   */
  get isMostlyFree(): boolean {
    return this.#held.sum() <= MOSTLY_FREE * this.maxBytes;
  }

  /**
   * Whether more bytes fit. Any number fits if others hold nothing but pictures, which have their own limit, and
   * results, which can be evicted.
   * @param own bytes that the caller already holds
   */
  hasRoom(part: Asking, bytes: number, own = 0): boolean {
    const held = this.#held.sum();
    const used = held + this.#results.sum();
    if (used + bytes <= fullAt[part] * this.maxBytes || held <= own) return true;
    // Files and tensors wait for memory and are not refused, so their small requests get no exception.
    if (part === "files" || part === "tensors") return false;
    const ofOutputs = (FREE_FOR_OUTPUTS * this.maxBytes) / this.#processes - this.#parts.outputs;
    return bytes <= OF_FREE * Math.max(this.maxBytes - used, part === "outputs" ? ofOutputs : 0);
  }

  /** Charges bytes if they fit. @returns undefined if they do not fit */
  take(part: Asking, bytes: number): Charge | undefined {
    return this.hasRoom(part, bytes) ? this.add(part, bytes) : undefined;
  }

  /** Charges memory that is already in use, without a check of the limit. */
  add(part: Part, bytes: number): Charge {
    const charge = new Charge(this, part);
    charge.grow(bytes);
    return charge;
  }

  /**
   * Calls the listener once, soon after memory is freed. With several processes, the call may come without free memory.
   */
  onceRoom(listener: () => void): void {
    this.#listeners.add(listener);
    this.#pollLater();
  }

  /** Calls `relieve` when bytes are added to an account over its limit, so that it frees memory. */
  onPressure(relieve: () => void): void {
    this.#relievers.add(relieve);
  }

  /** Charges files as soon as they fit, after the files that already wait. @throws the reason of the signal */
  async takeInTurn(charge: Charge, bytes: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#waiters.length > 0 || !this.#hasRoomForFile(bytes)) await this.#wait(charge, bytes, signal);
    else charge.grow(bytes);
  }

  /** Adds bytes to a use of memory. Only `Charge` calls this method. */
  count(part: Part, bytes: number): void {
    if (bytes === 0) return;
    this.#parts[part] += bytes;
    this.#counterOf(part).add(bytes);
    if (bytes < 0) {
      this.dropped(-bytes);
      this.#wakeLater();
    } else {
      if (this.isOver) for (const relieve of this.#relievers) relieve();
      this.#collect();
    }
  }

  #wait(charge: Charge, bytes: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      // Smaller files behind the removed file may fit.
      this.#wakeLater();
      reject(signal.reason);
    };
    const admit = () => {
      signal.removeEventListener("abort", leave);
      charge.grow(bytes);
      resolve();
    };
    const waiter: Waiter = { bytes, admit };
    this.#waiters.push(waiter);
    signal.addEventListener("abort", leave, { once: true });
    this.#pollLater();
    return promise;
  }

  #counterOf(part: Part): Counter {
    if (part === "pictures") return this.#pictures;
    return part === "results" ? this.#results : this.#held;
  }

  #hasRoomForPicture(bytes: number): boolean {
    return this.#pictures.sum() + bytes <= PICTURES * this.maxBytes || this.used + bytes <= this.maxBytes;
  }

  #hasRoomForFile(bytes: number): boolean {
    return this.#parts.files + bytes <= this.maxFileBytes || this.hasRoom("files", bytes);
  }

  /** Counts bytes that became garbage, charged or not. Garbage stays in memory until a garbage collection. */
  dropped(bytes: number): void {
    this.#garbage += bytes;
    this.#collect();
  }

  /**
   * Collects garbage when it exceeds the free memory; JavaScriptCore alone would let its heap double. The collection is
   * synchronous, because one turn of the event loop can produce a whole batch of outputs.
   */
  #collect(): void {
    if (this.#garbage < Math.max(MIN_GARBAGE, this.maxBytes / 16 / this.#processes)) return;
    // The garbage of other processes is unknown, so each process allows itself an equal share of the free memory.
    if (this.#garbage <= (this.maxBytes - this.used) / this.#processes) return;
    this.#garbage = 0;
    // `Bun.gc(true)` would block this thread longer.
    gcAndSweep();
  }

  /** Wakes waiting files and listeners in one microtask, even after several freed charges. */
  #wakeLater(): void {
    if (this.#willWake || this.#listeners.size + this.#waiters.length === 0) return;
    this.#willWake = true;
    queueMicrotask(() => {
      this.#willWake = false;
      this.#wake();
    });
  }

  #wake(): void {
    for (
      let first = this.#waiters[0];
      first !== undefined && this.#hasRoomForFile(first.bytes);
      first = this.#waiters[0]
    ) {
      this.#waiters.shift();
      first.admit();
    }
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }

  #pollLater(): void {
    if (this.#processes === 1 || this.#poll !== undefined) return;
    this.#poll = setTimeout(() => {
      this.#poll = undefined;
      this.#wake();
      if (this.#listeners.size + this.#waiters.length > 0) this.#pollLater();
    }, POLL_MS);
  }
}

/** Counter for a server with only one process. */
class LocalCounter implements Counter {
  #sum = 0;

  sum(): number {
    return this.#sum;
  }

  add(amount: number): void {
    this.#sum += amount;
  }
}
