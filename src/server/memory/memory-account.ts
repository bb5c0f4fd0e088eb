/**
 * One account of the bytes that a server holds for its clients. What can still be refused, or wait, is asked for before it is taken; what is
 * there already is added, and keeps new work out. Several processes share an account through counters that all of them see.
 */
import { gcAndSweep } from "bun:jsc";
import type { PictureRoom } from "../../author/decoding-gate.ts";
import type { SharedCounter } from "../../machine/processes/shared-counters.ts";
import { Charge } from "./charge.ts";

/**
 * What bytes are held for: request bodies and what is parsed of them; files that were fetched, from their first byte; pictures while they are decoded or
 * encoded; tensors that wait for a batch, and rows that wait for `postprocess`; outputs and logs of predictions that have not ended; results that can
 * still be read, and webhooks that are to be told of them; answers being sent.
 */
export const parts = ["bodies", "files", "pictures", "tensors", "outputs", "results", "answers"] as const;
export type Part = (typeof parts)[number];

/** Share of the account for pictures. One picture may take all of it; the limits of other parts leave pictures out. */
const PICTURES = 0.35;

/** The same for files; those of one input have at most as many bytes. */
const FILES = 0.25;

/**
 * How full the account may be for a request of each part to be granted. Work that is further on its way may fill more of it: what was accepted must
 * be able to end, in batches.
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
 * A request for less than this share of the free account is always granted: large requests must not keep small ones out. A reserve for small ones
 * would need a fixed size that counts as small (dynamic thresholds of shared buffers: Choudhury and Hahne, 1998).
 */
const OF_FREE = 1 / 256;

/**
 * Share that small outputs always have together: while a large body is checked more may be held than the account has, and accepted work must still
 * end.
 */
const FREE_FOR_OUTPUTS = 1 / 16;

/** Bytes of memory that count for a byte of an output: two in its text, where a character needs them, and one in the copy that is sent. */
export const HELD_PER_OUTPUT_BYTE = 3;

/** The same of a tensor: one copy is here, to be run once more, and two are where it runs: as it came, and in its batch. */
export const HELD_PER_TENSOR_BYTE = 3;

export interface MemoryAccountOptions {
  /** By default there is no limit. */
  readonly maxBytes?: number;
  /** What this process holds, where its siblings see it: results, pictures, and all else. By default there are no siblings. */
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

/** Polling interval while something waits for room: siblings give bytes back without a word. */
const LOOK_MS = 50;

/** Less garbage is not worth the milliseconds of a collection. */
const MIN_GARBAGE = 16 * 2 ** 20;

export class MemoryAccount {
  readonly maxBytes: number;
  readonly #held: SharedCounter;
  readonly #pictures: SharedCounter;
  readonly #results: SharedCounter;
  /** Processes that share the account. */
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
  /** Told once when bytes were given back. */
  readonly #listeners = new Set<() => void>();
  /** In the order in which they came. */
  readonly #waiters: Waiter[] = [];
  #willWake = false;
  /** Bytes let go of since the last full collection. */
  #garbage = 0;
  /** Bytes let go of since a collection of young garbage was last asked for. */
  #youngGarbage = 0;
  #willCollect = false;
  #look: ReturnType<typeof setTimeout> | undefined;

  constructor({ maxBytes = Number.POSITIVE_INFINITY, siblings }: MemoryAccountOptions = {}) {
    this.maxBytes = maxBytes;
    this.#held = siblings?.held ?? new LocalCounter();
    this.#pictures = siblings?.pictures ?? new LocalCounter();
    this.#results = siblings?.results ?? new LocalCounter();
    this.#processes = siblings?.count ?? 1;
  }

  /** What this process holds. */
  get parts(): Readonly<Record<Part, number>> {
    return this.#parts;
  }

  /** Of all processes. */
  get used(): number {
    return this.#held.sum() + this.#pictures.sum() + this.#results.sum();
  }

  /** Most bytes of results that this process may keep, although they can be forgotten. */
  get maxResultBytes(): number {
    return this.maxBytes / 4 / this.#processes;
  }

  /** Where this process counts the pictures that it decodes. */
  get pictures(): PictureRoom {
    return {
      maxBytes: (PICTURES * this.maxBytes) / this.#processes,
      hasRoom: (bytes) => this.#hasRoomForPicture(bytes),
      count: (bytes) => this.count("pictures", bytes),
      onceRoom: (listener) => this.onceRoom(listener),
    };
  }

  /** Most that the files of one input, or of one demo, may have together: there is room for as many once other files are gone. */
  get maxFileBytes(): number {
    return (FILES * this.maxBytes) / this.#processes;
  }

  /** Most that the outputs of one prediction may have together: there never is room for more. */
  get maxOutputBytes(): number {
    return (fullAt.outputs * this.maxBytes) / HELD_PER_OUTPUT_BYTE;
  }

  get isOver(): boolean {
    return this.used > this.maxBytes;
  }

  /**
   * Whether so many bytes more fit. They always do where nothing else is held but results, which can be forgotten; and where they are few beside
   * the free account, for parts that are refused rather than kept waiting.
   * @param own bytes that the asker holds already
   */
  hasRoom(part: Asking, bytes: number, own = 0): boolean {
    const held = this.#held.sum();
    const used = held + this.#results.sum();
    if (used + bytes <= fullAt[part] * this.maxBytes || held <= own) return true;
    // These wait for their turn.
    if (part === "files" || part === "tensors") return false;
    const ofOutputs = (FREE_FOR_OUTPUTS * this.maxBytes) / this.#processes - this.#parts.outputs;
    return bytes <= OF_FREE * Math.max(this.maxBytes - used, part === "outputs" ? ofOutputs : 0);
  }

  /** @returns undefined where there is no room: then nothing was taken */
  take(part: Asking, bytes: number): Charge | undefined {
    return this.hasRoom(part, bytes) ? this.add(part, bytes) : undefined;
  }

  /** For what is there already, or begins with nothing. */
  add(part: Part, bytes: number): Charge {
    const charge = new Charge(this, part);
    charge.grow(bytes);
    return charge;
  }

  /** Calls back once, soon after bytes were given back. */
  onceRoom(listener: () => void): void {
    this.#listeners.add(listener);
    this.#lookLater();
  }

  /** Called whenever more is held than may be, to let go of what is cheapest to lose. */
  onPressure(relieve: () => void): void {
    this.#relievers.add(relieve);
  }

  /**
   * Takes bytes for a file when its turn has come and there is room.
   * @param isNext it comes before all others that wait: who asks holds what they wait for
   * @throws the reason of the signal
   */
  async takeInTurn(charge: Charge, bytes: number, { signal, isNext }: FileTurn): Promise<void> {
    signal.throwIfAborted();
    if (isNext && this.#hasRoomForFile(bytes)) charge.grow(bytes);
    else if (!this.tryTakeInTurn(charge, bytes)) await this.#turnOf(charge, bytes, { signal, isNext });
  }

  /** The same where nothing has to be waited for; false where something has to. */
  tryTakeInTurn(charge: Charge, bytes: number): boolean {
    if (this.#waiters.length > 0 || !this.#hasRoomForFile(bytes)) return false;
    charge.grow(bytes);
    return true;
  }

  /** For charges alone. */
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

  #turnOf(charge: Charge, bytes: number, { signal, isNext }: FileTurn): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      // Those behind it may have waited for their turn alone.
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
    this.#lookLater();
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

  /** Bytes were let go of, counted or not. They stay in memory until garbage is collected. */
  dropped(bytes: number): void {
    this.#garbage += bytes;
    this.#youngGarbage += bytes;
    this.#collect();
  }

  /**
   * By itself JavaScriptCore lets its heap double before a full collection. So one is made as soon as held bytes and possible garbage exceed the
   * account: at once, as one turn of the event loop may make a whole batch of outputs. From half of the account on a collection of young garbage is
   * asked for beside this thread. It misses what outlived an earlier one, as files do whose bytes come slowly, so it does not reset `#garbage`.
   */
  #collect(): void {
    const least = Math.max(MIN_GARBAGE, this.maxBytes / 16 / this.#processes);
    if (this.#garbage < least) return;
    // The garbage of siblings is not known here: each process has its share of the room.
    const room = (this.maxBytes - this.used) / this.#processes;
    if (this.#garbage > room) {
      this.#garbage = 0;
      this.#youngGarbage = 0;
      // This thread waits for it, and would wait longer for Bun.gc(true).
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

  /** Once for all bytes that are given back in one turn of the event loop. */
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

  #lookLater(): void {
    if (this.#processes === 1 || this.#look !== undefined) return;
    this.#look = setTimeout(() => {
      this.#look = undefined;
      this.#wake();
      if (this.#listeners.size + this.#waiters.length > 0) this.#lookLater();
    }, LOOK_MS);
  }
}

/** Of a server that is one process. */
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
