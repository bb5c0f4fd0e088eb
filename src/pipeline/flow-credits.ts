/**
 * Limits the started inputs without an output, by count and bytes. The fronts of a server divide the limits. Each front
 * may use its part, and the unused parts of other fronts.
 */

import type { ItemList, ListItem } from "./item-list.ts";
import type { Charge } from "./memory/charge.ts";
import { HELD_PER_TENSOR_BYTE, type MemoryAccount } from "./memory/memory-account.ts";

/** Limit for `preprocess` promises that are pending at the same time. */
const MAX_PREPARING = 512;

/** Maximum items in the engine's queue: two batches, or one if a batch takes longer than `LONG_BATCH_MS`. */
const READY_BATCHES = 2;
const LONG_BATCH_MS = 50;
const MIN_READY = 8;
/** Short batches: as many items as run in this time, in which the event loop may be busy with requests. */
const MIN_READY_MS = 20;

/** Items that the fronts of a server have in the engine's queue, and bytes that they hold for it. */
export interface ReadyInFronts {
  /** Adds to the counts of this front. */
  addReady(items: number, bytes: number): void;
  /** The counts of the other fronts. */
  readonly readyElsewhere: { readonly items: number; readonly bytes: number };
}

interface FlowCreditsOptions {
  /** Largest batch size, times the number of runners. */
  readonly batchItems: () => number;
  readonly maxReadyBytes: number;
  readonly fronts: number;
  readonly inFronts?: ReadyInFronts | undefined;
  readonly memory: MemoryAccount;
  /** Bytes of an item's tensors, if all declared sizes are fixed; otherwise undefined. */
  readonly itemBytes: number | undefined;
  /** Called when memory is free again, after a lack of memory. */
  readonly onRoom: () => void;
}

export class FlowCredits {
  readonly #options: FlowCreditsOptions;
  /** Memory charge for tensors and rows. Fetched files have their own charges. */
  readonly #charge: Charge;
  /** Count of items in the engine's queue, and bytes of these items and of unfinished output rows. */
  readonly ready = { items: 0, bytes: 0 };
  /** Count of predictions with items in the engine's queue. */
  #readyLists = 0;
  /** Count of inputs in batches: they left the engine's queue, and have no result. */
  running = 0;
  /** The counts of items that share no batch with items of other clients. */
  readonly #separate = { ready: 0, running: 0 };
  /** Count of inputs with a pending `preprocess` promise. */
  #preparing = 0;
  /** Count of output rows that wait for `postprocess`, or have a pending `postprocess` promise. */
  #finishing = 0;
  /** Milliseconds of a full batch on each runner; 0 if unknown. */
  batchMs = 0;
  /** Count of inputs that are not in a batch yet. */
  unsent = 0;
  /** Expected bytes of the next item; undefined before the first item if its size is not declared. */
  #expectedBytes: number | undefined;

  constructor(options: FlowCreditsOptions) {
    this.#options = options;
    this.#charge = options.memory.add("tensors", 0);
    this.#expectedBytes = options.itemBytes;
  }

  /**
   * Count of inputs in batches. Without a running batch, the count of all started inputs, because all may hang in
   * `preprocess`.
   */
  get inService(): number {
    return this.running || this.#used;
  }

  /** Maximum items of all fronts that may wait in the engine's queue. */
  get maxReady(): number {
    const batchItems = this.#options.batchItems();
    if (this.batchMs > LONG_BATCH_MS) return batchItems;
    const batches = this.batchMs > 0 ? Math.max(READY_BATCHES, MIN_READY_MS / this.batchMs) : READY_BATCHES;
    return Math.max(MIN_READY, batches * batchItems);
  }

  /** Whether one more input may begin. */
  get areLeft(): boolean {
    return this.#hasRoom(this.ready.items, this.maxReady);
  }

  /** Whether a prediction may begin out of turn: the predictions in the engine's queue are fewer than half a batch. */
  get mayPass(): boolean {
    return this.#hasRoom(this.#readyLists, this.#options.batchItems() / 2);
  }

  /**
   * Whether no item of a suspect client may begin. Batches with these items fail and run again in parts, so the
   * engine has one of them at most.
   */
  get isSeparateFull(): boolean {
    return this.#separate.running > 0 || this.#separate.ready >= this.#options.batchItems();
  }

  get #used(): number {
    return this.ready.items + this.#preparing + this.#finishing;
  }

  #hasRoom(ready: number, most: number): boolean {
    if (this.#isFull("items", ready, most) || this.#preparing >= MAX_PREPARING) return false;
    return this.#used === 0 || this.#hasBytes();
  }

  #isFull(unit: "items" | "bytes", used: number, most: number): boolean {
    const { fronts, inFronts } = this.#options;
    if (used < most / fronts) return false;
    return used + (inFronts?.readyElsewhere[unit] ?? 0) >= most;
  }

  #hasBytes(): boolean {
    const { memory, onRoom, maxReadyBytes } = this.#options;
    // The size of an item is unknown before the first one, so the limit is a count.
    if (this.#expectedBytes === undefined && this.#preparing >= this.maxReady) return false;
    const coming = this.#preparing * (this.#expectedBytes ?? 0);
    if (this.#isFull("bytes", this.ready.bytes + coming, maxReadyBytes)) return false;
    if (memory.hasRoom("tensors", HELD_PER_TENSOR_BYTE * (coming + (this.#expectedBytes ?? 0)))) return true;
    memory.onceRoom(onRoom);
    return false;
  }

  /** Counts the inputs of a new prediction as not in a batch yet. */
  add(list: ItemList): void {
    list.unsent = list.count;
    this.unsent += list.count;
  }

  /** Counts an item that begins to wait in the engine's queue, and charges the memory of its tensors. */
  enter(item: ListItem): void {
    item.list.items.add(item);
    item.ahead = item.list.ready;
    this.#queue(item, 1);
    this.#holdTensors(item.bytes);
  }

  /** Counts an item that leaves the engine's queue. @returns false if it left the queue before, or has no prediction */
  dispatched(item: ListItem): boolean {
    if (!item.isWaiting || item.ring === undefined) return false;
    this.#queue(item, -1);
    item.isWaiting = false;
    this.#sent(item.list);
    this.#run(item, 1);
    return true;
  }

  /** Subtracts an item that has a result, and frees its memory charge. */
  ended(item: ListItem): void {
    if (!item.list.items.delete(item)) return;
    this.#holdTensors(-item.bytes);
    if (!item.isWaiting) this.#run(item, -1);
    else {
      this.#queue(item, -1);
      this.#sent(item.list);
    }
  }

  /** Subtracts an input that failed before it became an item. */
  failed(list: ItemList): void {
    if (!list.isOver) this.#sent(list);
  }

  /** Subtracts an item that the engine refused, and frees its memory charge. Its input still counts until `failed`. */
  refused(item: ListItem): void {
    if (!item.list.items.delete(item)) return;
    this.#queue(item, -1);
    this.#holdTensors(-item.bytes);
  }

  /** Counts an input whose `preprocess` returned a promise. */
  preparing(list: ItemList): void {
    list.preparing += 1;
    this.#preparing += 1;
  }

  /**
   * Subtracts an input whose `preprocess` promise has settled.
   * @param bytes of the new item; undefined without an item
   */
  prepared(list: ItemList, bytes: number | undefined): void {
    // The expected size rises at once to a larger item and falls slowly, so that a few large items fit, too.
    if (bytes !== undefined) this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
    if (list.isOver) return;
    list.preparing -= 1;
    this.#preparing -= 1;
  }

  /**
   * Counts a row of `bytes` bytes that `postprocess` has not finished.
   * @param change 1 when the row begins to wait or its promise begins, -1 when the wait or the promise ends
   */
  finishing(list: ItemList, bytes: number, change: 1 | -1): void {
    list.finishing += change;
    list.rowBytes += change * bytes;
    this.#finishing += change;
    this.#addReady(0, change * bytes);
    this.#charge.grow(change * bytes);
  }

  /**
   * Subtracts the inputs and memory of an ended prediction, but not rows that `postprocess` still has: `finishing`
   * subtracts these later.
   */
  clear(list: ItemList): void {
    for (let item = list.items.first; item !== undefined; item = list.items.first) this.ended(item);
    this.unsent -= list.unsent;
    list.unsent = 0;
    this.#preparing -= list.preparing;
  }

  /** Counts an item that enters (1) or leaves (-1) the engine's queue. */
  #queue({ list, bytes, isSeparate }: ListItem, change: 1 | -1): void {
    const before = list.ready;
    list.ready += change;
    if (before === 0 || list.ready === 0) this.#readyLists += change;
    this.#addReady(change, change * bytes);
    if (isSeparate) this.#separate.ready += change;
  }

  /** Counts an item that begins to run (1) or has a result (-1). */
  #run({ isSeparate }: ListItem, change: 1 | -1): void {
    this.running += change;
    if (isSeparate) this.#separate.running += change;
  }

  #addReady(items: number, bytes: number): void {
    this.ready.items += items;
    this.ready.bytes += bytes;
    this.#options.inFronts?.addReady(items, bytes);
  }

  #sent(list: ItemList): void {
    list.unsent -= 1;
    this.unsent -= 1;
  }

  #holdTensors(bytes: number): void {
    this.#charge.grow(HELD_PER_TENSOR_BYTE * bytes);
  }
}
