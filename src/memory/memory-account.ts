/**
 * One account of the bytes that a server holds for its clients. What can still be refused, or wait, is asked for before it is taken; what is
 * there already is added, and keeps new work out. Several processes share an account through counters that all of them see.
 */
import type { SharedCounter } from "../processes/shared-counters.ts";
import { Charge } from "./charge.ts";

/**
 * What bytes are held for: request bodies and what is parsed of them; files that were fetched, from their first byte; tensors that wait for a batch, and
 * rows that wait for `postprocess`; outputs and logs of predictions that have not ended; results that can still be read; answers being sent.
 */
export const parts = ["bodies", "files", "tensors", "outputs", "results", "answers"] as const;
export type Part = (typeof parts)[number];

/**
 * How far the account may be filled by those who can be refused or wait. Work that is further on its way may fill more of it: what was accepted must be
 * able to end, in batches.
 */
const fullAt = { bodies: 0.5, files: 0.75, tensors: 1 } as const;
type Asking = keyof typeof fullAt;

export interface MemoryAccountOptions {
  /** By default there is no limit. */
  readonly maxBytes?: number;
  /** What this process holds, where its siblings see it: results, and all else. By default there are no siblings. */
  readonly siblings?: { readonly count: number; readonly held: SharedCounter; readonly results: SharedCounter };
}

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** What another process gives back tells nobody here: who waits looks this often, and only while somebody waits. */
const LOOK_MS = 50;

export class MemoryAccount {
  readonly maxBytes: number;
  readonly #held: SharedCounter;
  readonly #results: SharedCounter;
  /** Processes that share the account. */
  readonly #processes: number;
  readonly #parts: Record<Part, number> = { bodies: 0, files: 0, tensors: 0, outputs: 0, results: 0, answers: 0 };
  readonly #relievers = new Set<() => void>();
  /** Told once when bytes were given back. */
  readonly #listeners = new Set<() => void>();
  /** In the order in which they came. */
  readonly #waiters = new Set<Waiter>();
  #willWake = false;
  #look: ReturnType<typeof setTimeout> | undefined;

  constructor({ maxBytes = Number.POSITIVE_INFINITY, siblings }: MemoryAccountOptions = {}) {
    this.maxBytes = maxBytes;
    this.#held = siblings?.held ?? new LocalCounter();
    this.#results = siblings?.results ?? new LocalCounter();
    this.#processes = siblings?.count ?? 1;
  }

  /** What this process holds. */
  get parts(): Readonly<Record<Part, number>> {
    return this.#parts;
  }

  /** Of all processes. */
  get used(): number {
    return this.#held.sum() + this.#results.sum();
  }

  /** Most that this process may keep of results, for all that they can be forgotten. */
  get maxResultBytes(): number {
    return this.maxBytes / 4 / this.#processes;
  }

  get isOver(): boolean {
    return this.used > this.maxBytes;
  }

  /**
   * Whether so many bytes more fit. What would be alone, but for results that can be forgotten, always fits.
   * @param own bytes that who asks holds already
   */
  hasRoom(part: Asking, bytes: number, own = 0): boolean {
    const held = this.#held.sum();
    return held + this.#results.sum() + bytes <= fullAt[part] * this.maxBytes || held <= own;
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
   * Takes bytes for a file when its turn has come and there is room. A file that no other file or tensor would make room for is let in.
   * @throws the reason of the signal
   */
  async takeInTurn(charge: Charge, bytes: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#waiters.size > 0 || !this.#hasRoomForFile(bytes)) await this.#turnOf(charge, bytes, signal);
    else charge.grow(bytes);
  }

  /** For charges alone. */
  count(part: Part, bytes: number): void {
    this.#parts[part] += bytes;
    (part === "results" ? this.#results : this.#held).add(bytes);
    if (bytes < 0) this.#wakeLater();
    else if (this.isOver) for (const relieve of this.#relievers) relieve();
  }

  #turnOf(charge: Charge, bytes: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiters.delete(waiter);
      // Others may have waited for their turn only.
      this.#wakeLater();
      reject(signal.reason);
    };
    const admit = () => {
      this.#waiters.delete(waiter);
      signal.removeEventListener("abort", leave);
      charge.grow(bytes);
      resolve();
    };
    const waiter: Waiter = { bytes, admit };
    this.#waiters.add(waiter);
    signal.addEventListener("abort", leave, { once: true });
    this.#lookLater();
    return promise;
  }

  #hasRoomForFile(bytes: number): boolean {
    const { files, tensors } = this.#parts;
    return files + tensors === 0 || this.hasRoom("files", bytes);
  }

  /** Once for all that is given back in one turn of the loop. */
  #wakeLater(): void {
    if (this.#willWake || this.#listeners.size + this.#waiters.size === 0) return;
    this.#willWake = true;
    queueMicrotask(() => {
      this.#willWake = false;
      this.#wake();
    });
  }

  #wake(): void {
    for (const { bytes, admit } of this.#waiters) {
      if (!this.#hasRoomForFile(bytes)) break;
      admit();
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
      if (this.#listeners.size + this.#waiters.size > 0) this.#lookLater();
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
