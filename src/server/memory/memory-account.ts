/**
 * The account of the memory that a server holds for clients. Callers ask for memory that they can refuse or delay (`take`), and report memory that
 * exists already (`add`). Several processes share an account through shared counters.
 */
import { gcAndSweep } from "bun:jsc";
import type { PictureBudget } from "../../author/decoding-gate.ts";
import type { SharedCounter } from "../../machine/processes/shared-counters.ts";
import { Charge } from "./charge.ts";

/**
 * Purposes of memory. bodies: request bodies and parsed inputs. files: fetched files, also partial ones. pictures: pictures in decoding or encoding.
 * tensors: tensors before their batch, and rows before `postprocess`. outputs: outputs and logs of unfinished predictions. results: retained results, and
 * undelivered webhooks. answers: answers in transfer.
 */
export const parts = ["bodies", "files", "pictures", "tensors", "outputs", "results", "answers"] as const;
export type Part = (typeof parts)[number];

/** Share of pictures. One picture may use all of it. The limits of other parts ignore pictures. */
const PICTURES = 0.35;

/** Share of files, and largest size of the files of one input. */
const FILES = 0.25;

/**
 * Fill level up to which a part gets memory. Later stages have higher levels, so that accepted work can end.
 */
const fullAt = {
  bodies: 0.4,
  files: 0.5,
  tensors: 0.55,
  outputs: 0.65,
  answers: 0.65,
} as const;
type Asking = keyof typeof fullAt;

/**
 * Requests for less than this share of the free memory always succeed, so that large requests cannot starve small ones (dynamic thresholds of shared
 * buffers: Choudhury and Hahne, 1998). A fixed reserve would need a definition of small.
 */
const OF_FREE = 1 / 256;

/**
 * Share of small outputs that is always free. The check of a large body can exceed the account, and accepted work must end meanwhile.
 */
const FREE_FOR_OUTPUTS = 1 / 16;

/** Bytes to charge for a byte of an output: two for its string, and one for the copy in transfer. */
export const HELD_PER_OUTPUT_BYTE = 3;

/** Bytes to charge for a byte of a tensor: the copy of the front for a second run, the copy of the engine, and the batch. */
export const HELD_PER_TENSOR_BYTE = 3;

export interface MemoryAccountOptions {
  /** Unlimited by default. */
  readonly maxBytes?: number;
  /** Shared counters of all processes: results, pictures, and everything else. By default this is the only process. */
  readonly siblings?: { readonly count: number } & Readonly<Record<"held" | "pictures" | "results", SharedCounter>>;
}

export interface FileTurn {
  readonly signal: AbortSignal;
  readonly isNext: boolean;
}

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** Polling interval of a waiter: other processes free memory without a notification. */
const POLL_MS = 50;

/** A collection takes milliseconds, which less garbage does not justify. */
const MIN_GARBAGE = 16 * 2 ** 20;

export class MemoryAccount {
  readonly maxBytes: number;
  readonly #held: SharedCounter;
  readonly #pictures: SharedCounter;
  readonly #results: SharedCounter;
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
  /** Called once, when memory is freed. */
  readonly #listeners = new Set<() => void>();
  readonly #waiters: Waiter[] = [];
  #willWake = false;
  /** Freed bytes since the last full collection. */
  #garbage = 0;
  /** Freed bytes since the last request for a young collection. */
  #youngGarbage = 0;
  #willCollect = false;
  #poll: ReturnType<typeof setTimeout> | undefined;

  constructor({ maxBytes = Number.POSITIVE_INFINITY, siblings }: MemoryAccountOptions = {}) {
    this.maxBytes = maxBytes;
    this.#held = siblings?.held ?? new LocalCounter();
    this.#pictures = siblings?.pictures ?? new LocalCounter();
    this.#results = siblings?.results ?? new LocalCounter();
    this.#processes = siblings?.count ?? 1;
  }

  /** Memory of this process, by part. */
  get parts(): Readonly<Record<Part, number>> {
    return this.#parts;
  }

  /** Memory of all processes. */
  get used(): number {
    return this.#held.sum() + this.#pictures.sum() + this.#results.sum();
  }

  /** Limit of the results of this process. */
  get maxResultBytes(): number {
    return this.maxBytes / 4 / this.#processes;
  }

  /** The account as the decoder of pictures sees it. */
  get pictures(): PictureBudget {
    return {
      maxBytes: (PICTURES * this.maxBytes) / this.#processes,
      hasRoom: (bytes) => this.#hasRoomForPicture(bytes),
      count: (bytes) => this.count("pictures", bytes),
      onceRoom: (listener) => this.onceRoom(listener),
    };
  }

  /** Largest size of the files of one input or demo. They fit when no other files are in memory. */
  get maxFileBytes(): number {
    return (FILES * this.maxBytes) / this.#processes;
  }

  /** Largest size of the outputs of one prediction. More never fits. */
  get maxOutputBytes(): number {
    return (fullAt.outputs * this.maxBytes) / HELD_PER_OUTPUT_BYTE;
  }

  get isOver(): boolean {
    return this.used > this.maxBytes;
  }

  /**
   * Whether more bytes fit. They always fit if the account has nothing else but results, which can be evicted. Bytes that are few beside the free
   * memory fit too, in parts whose requests are refused instead of delayed.
   * @param own bytes that the caller holds already
   */
  hasRoom(part: Asking, bytes: number, own = 0): boolean {
    const held = this.#held.sum();
    const used = held + this.#results.sum();
    if (used + bytes <= fullAt[part] * this.maxBytes || held <= own) return true;
    // Requests of these parts wait instead.
    if (part === "files" || part === "tensors") return false;
    const ofOutputs = (FREE_FOR_OUTPUTS * this.maxBytes) / this.#processes - this.#parts.outputs;
    return bytes <= OF_FREE * Math.max(this.maxBytes - used, part === "outputs" ? ofOutputs : 0);
  }

  /** @returns undefined if the bytes do not fit */
  take(part: Asking, bytes: number): Charge | undefined {
    return this.hasRoom(part, bytes) ? this.add(part, bytes) : undefined;
  }

  /** Charges memory that exists already, or starts an empty charge. */
  add(part: Part, bytes: number): Charge {
    const charge = new Charge(this, part);
    charge.grow(bytes);
    return charge;
  }

  /** Calls back once, soon after memory is freed. */
  onceRoom(listener: () => void): void {
    this.#listeners.add(listener);
    this.#pollLater();
  }

  /** Calls back whenever the account is over its limit. The callback evicts memory that is cheap to lose. */
  onPressure(relieve: () => void): void {
    this.#relievers.add(relieve);
  }

  /**
   * Charges a file, after earlier waiters and when it fits.
   * @param isNext whether the file precedes all other waiters, because its owner holds memory that they wait for
   * @throws the reason of the signal
   */
  async takeInTurn(charge: Charge, bytes: number, { signal, isNext }: FileTurn): Promise<void> {
    signal.throwIfAborted();
    if (isNext && this.#hasRoomForFile(bytes)) charge.grow(bytes);
    else if (!this.tryTakeInTurn(charge, bytes)) await this.#wait(charge, bytes, { signal, isNext });
  }

  /** @returns false if the file would have to wait */
  tryTakeInTurn(charge: Charge, bytes: number): boolean {
    if (this.#waiters.length > 0 || !this.#hasRoomForFile(bytes)) return false;
    charge.grow(bytes);
    return true;
  }

  /** Only `Charge` calls this. */
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

  #wait(charge: Charge, bytes: number, { signal, isNext }: FileTurn): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      // Later waiters may fit, and waited only for this one.
      this.#wakeLater();
      reject(signal.reason);
    };
    const admit = () => {
      signal.removeEventListener("abort", leave);
      charge.grow(bytes);
      resolve();
    };
    const waiter: Waiter = { bytes, admit };
    if (isNext) this.#waiters.unshift(waiter);
    else this.#waiters.push(waiter);
    signal.addEventListener("abort", leave, { once: true });
    this.#pollLater();
    return promise;
  }

  #counterOf(part: Part): SharedCounter {
    if (part === "pictures") return this.#pictures;
    return part === "results" ? this.#results : this.#held;
  }

  #hasRoomForPicture(bytes: number): boolean {
    return this.#pictures.sum() + bytes <= PICTURES * this.maxBytes || this.used + bytes <= this.maxBytes;
  }

  #hasRoomForFile(bytes: number): boolean {
    return this.#parts.files + bytes <= this.maxFileBytes || this.hasRoom("files", bytes);
  }

  /** Reports garbage, of charged or other memory. It stays in memory until a collection. */
  dropped(bytes: number): void {
    this.#garbage += bytes;
    this.#youngGarbage += bytes;
    this.#collect();
  }

  /**
   * JavaScriptCore lets its heap double before a full collection. This starts one as soon as charges and garbage exceed the account: synchronously,
   * because one turn of the event loop can produce a whole batch of outputs. From half of the account on it requests a young collection, which runs beside
   * this thread. A young collection misses objects that survived an earlier one, such as slowly fetched files, so it does not reset `#garbage`.
   */
  #collect(): void {
    const least = Math.max(MIN_GARBAGE, this.maxBytes / 16 / this.#processes);
    if (this.#garbage < least) return;
    // The garbage of other processes is unknown, so each process uses its share of the free memory.
    const room = (this.maxBytes - this.used) / this.#processes;
    if (this.#garbage > room) {
      this.#garbage = 0;
      this.#youngGarbage = 0;
      // Bun.gc(true) would block this thread longer.
      gcAndSweep();
    } else if (this.#youngGarbage >= Math.max(least, room - this.maxBytes / 2 / this.#processes)) {
      this.#collectYoungLater();
    }
  }

  #collectYoungLater(): void {
    if (this.#willCollect) return;
    this.#willCollect = true;
    setImmediate(() => {
      this.#willCollect = false;
      this.#youngGarbage = 0;
      Bun.gc(false);
    });
  }

  /** Once for each turn of the event loop. */
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

/** Counter of a server with one process. */
class LocalCounter implements SharedCounter {
  own = 0;

  sum(): number {
    return this.own;
  }

  add(amount: number): void {
    this.own += amount;
  }

  set(value: number): void {
    this.own = value;
  }
}
