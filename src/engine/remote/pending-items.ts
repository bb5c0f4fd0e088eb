/** The items that a front has given to an engine process and that have not ended, with their frames in case they have to be sent again. */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { type InRing, Ring } from "../../base/collections/ring.ts";
import type { Item } from "../engine.ts";
import { IS_ALONE } from "./frame.ts";
import type { Block, FrameBlocks } from "./frame-blocks.ts";
import type { SharedPlace, SharedTensors } from "./shared-tensors.ts";

export interface Pending<T extends Item> extends InRing<Pending<T>> {
  readonly item: T;
  readonly number: number;
  readonly ownLane: Lane<T>;
  readonly padded: ReadonlyMap<string, number>;
  /** Its frame. */
  readonly block: Block;
  readonly from: number;
  readonly to: number;
  /** Of its tensors, where they are not in the frame. */
  readonly place: SharedPlace | undefined;
  /** Waits for a batch, is in one, or is in one with no other item beside it. */
  state: "waiting" | "dispatched" | "alone";
  /** How often an engine process ended before the item did. */
  losses: number;
}

/** The items of one lane. */
interface Lane<T extends Item> {
  readonly number: number;
  readonly items: Ring<Pending<T>>;
}

/** An item that saw so many processes end is taken for a suspect: that it was dispatched may not have come through. */
const MOST_LOSSES = 2;
/** Numbers go round below this, far more than there are items at a time. */
const NUMBERS = 2 ** 30;

export class PendingItems<T extends Item> {
  readonly #blocks: FrameBlocks;
  readonly #shared: SharedTensors;
  /** By number. */
  readonly #items = new OpenMap<number, Pending<T>>(spread);
  /** Those that have items. */
  readonly #lanes = new WeakMap<object, Lane<T>>();
  #lastItem = 0;
  #lastLane = 0;

  constructor(blocks: FrameBlocks, shared: SharedTensors) {
    this.#blocks = blocks;
    this.#shared = shared;
  }

  /** In the order in which they were submitted. */
  all(): Pending<T>[] {
    const age = ({ number }: Pending<T>) => (this.#lastItem - number + NUMBERS) % NUMBERS;
    return [...this.#items].sort((a, b) => age(b) - age(a));
  }

  get(number: number): Pending<T> | undefined {
    return this.#items.get(number);
  }

  nextNumber(): number {
    this.#lastItem = (this.#lastItem + 1) % NUMBERS;
    return this.#lastItem;
  }

  laneOf(lane: object): Lane<T> {
    const known = this.#lanes.get(lane);
    if (known !== undefined) return known;
    this.#lastLane = (this.#lastLane + 1) % NUMBERS;
    const made = { number: this.#lastLane, items: new Ring<Pending<T>>() };
    this.#lanes.set(lane, made);
    return made;
  }

  add(pending: Pending<T>): void {
    pending.block.holders += 1;
    pending.ownLane.items.add(pending);
    this.#items.set(pending.number, pending);
  }

  dispatched(pending: Pending<T>, isAlone: boolean): void {
    pending.state = isAlone ? "alone" : "dispatched";
  }

  /** Forgets an item that ended, and its frame. */
  remove(pending: Pending<T>): void {
    this.#forget(pending);
    if (pending.place !== undefined) this.#shared.release(pending.place);
  }

  #forget(pending: Pending<T>): void {
    const { ownLane, item, block } = pending;
    this.#items.delete(pending.number);
    ownLane.items.delete(pending);
    if (ownLane.items.size === 0) this.#lanes.delete(item.lane);
    this.#blocks.release(block);
  }

  /**
   * Forgets the items of a lane. The places of their tensors stay until the lane has ended in the engine process, too.
   * @returns the number of the lane; undefined when it has no items
   */
  removeLane(lane: object): number | undefined {
    const known = this.#lanes.get(lane);
    if (known === undefined) return undefined;
    for (let first = known.items.first; first !== undefined; first = known.items.first) {
      this.#forget(first);
      if (first.place !== undefined) this.#shared.retire(known.number, first.place);
    }
    return known.number;
  }

  /**
   * The engine process ended: all items wait again. Those that were in a batch are marked to be run with no other item beside them.
   * @returns those that ran so, and are not run again
   */
  lost(): Pending<T>[] {
    const culprits: Pending<T>[] = [];
    for (const pending of this.all()) {
      if (pending.state === "alone") {
        culprits.push(pending);
        continue;
      }
      pending.losses += 1;
      if (pending.state === "dispatched" || pending.losses >= MOST_LOSSES) markAlone(pending);
      pending.state = "waiting";
    }
    for (const culprit of culprits) this.remove(culprit);
    return culprits;
  }
}

function markAlone({ block, from }: Pick<Pending<Item>, "block" | "from">): void {
  const word = from / 4 + 1;
  block.memory.words[word] = (block.memory.words[word] ?? 0) | IS_ALONE;
}
