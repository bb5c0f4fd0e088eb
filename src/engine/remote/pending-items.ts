/** Submitted items that have no result yet, with their frames to send again after a restart of the engine process. */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import type { SharedRange } from "../../machine/processes/shared-memory.ts";
import type { Item } from "../engine.ts";
import { type Frame, IS_ALONE } from "./frame.ts";
import type { RunningItems } from "./running-items.ts";

export interface Pending<T extends Item> {
  readonly item: T;
  readonly number: number;
  readonly padded: ReadonlyMap<string, number>;
  readonly frame: Frame;
  /** The tensors' range of shared memory; undefined if they are in the frame. */
  readonly range: SharedRange | undefined;
  /**
   * `waiting`: in the queue, or in a batch that is not announced yet. `dispatched`: in an announced batch. `alone`: runs
   * alone, because it may have crashed an engine process.
   */
  state: "waiting" | "dispatched" | "alone";
  /** Number of engine processes that ended before the item had its result. */
  losses: number;
}

/** An item that was pending at this many ends of engine processes runs alone, because it may be their cause. */
const LOSSES_BEFORE_ALONE = 2;
/** Numbers of items wrap around at this value, far above the count of pending items. */
const NUMBERS = 2 ** 30;

export class PendingItems<T extends Item> {
  readonly #release: (range: SharedRange) => void;
  readonly #items = new OpenMap<number, Pending<T>>(spread);
  /** Shared memory of cancelled items, by their number. The engine process may read it until they have ended. */
  readonly #canceled = new Map<number, SharedRange>();
  #last = 0;

  constructor(release: (range: SharedRange) => void) {
    this.#release = release;
  }

  /** All items in the order of submission. */
  all(): Pending<T>[] {
    const age = ({ number }: Pending<T>) => (this.#last - number + NUMBERS) % NUMBERS;
    return [...this.#items].sort((a, b) => age(b) - age(a));
  }

  get size(): number {
    return this.#items.size;
  }

  get(number: number): Pending<T> | undefined {
    return this.#items.get(number);
  }

  nextNumber(): number {
    this.#last = (this.#last + 1) % NUMBERS;
    return this.#last;
  }

  add(pending: Pending<T>): void {
    this.#items.set(pending.number, pending);
  }

  /** Removes an ended item. @returns undefined for a cancelled item */
  ended(number: number): Pending<T> | undefined {
    const pending = this.#items.get(number);
    const range = pending?.range ?? this.#canceled.get(number);
    this.#items.delete(number);
    if (range === undefined) return pending;
    this.#canceled.delete(number);
    this.#release(range);
    return pending;
  }

  /** Removes items, but keeps their shared memory until `ended`. @returns numbers of the items that were pending */
  cancel(items: Iterable<T>): number[] {
    const numbers: number[] = [];
    for (const { number = -1 } of items) {
      const pending = this.#items.get(number);
      if (pending === undefined) continue;
      this.#items.delete(number);
      numbers.push(number);
      if (pending.range !== undefined) this.#canceled.set(number, pending.range);
    }
    return numbers;
  }

  /** Frees the shared memory of cancelled items, because no engine process reads it. */
  disconnected(): void {
    for (const number of [...this.#canceled.keys()]) this.ended(number);
  }

  /**
   * Handles the end of the engine process. All items wait again. Items of a running batch, and items pending at
   * `LOSSES_BEFORE_ALONE` ends of the process, will run alone.
   * @param running items of running batches, announced or not; undefined without shared memory
   * @returns the items that ran alone; they are removed
   */
  lost(running: Pick<RunningItems, "has"> | undefined): Pending<T>[] {
    const culprits: Pending<T>[] = [];
    for (const pending of this.all()) {
      if (pending.state === "alone") {
        this.ended(pending.number);
        culprits.push(pending);
        continue;
      }
      pending.losses += 1;
      const mayBeCause = pending.state === "dispatched" || running?.has(pending.number) === true;
      if (mayBeCause || pending.losses >= LOSSES_BEFORE_ALONE) markAlone(pending.frame);
      pending.state = "waiting";
    }
    return culprits;
  }
}

function markAlone({ memory: { words }, from }: Frame): void {
  words[from / 4 + 1] = (words[from / 4 + 1] ?? 0) | IS_ALONE;
}
