/**
 * Limits the inputs that have begun and have no output yet, by count and bytes. Quarantined clients, whose items often
 * fail, have separate limits.
 */

import type { ItemList, ListItem } from "./item-list.ts";
import type { Charge } from "./memory/charge.ts";
import { HELD_PER_TENSOR_BYTE, type MemoryAccount } from "./memory/memory-account.ts";

/** Limit for `preprocess` promises that are pending at the same time. */
const MAX_PREPARING = 512;

/** Share of `maxReadyBytes` for inputs of quarantined clients. */
const QUARANTINED_SHARE = 1 / 4;

/** Most items in the engine's queue, in batches. With three batches, the device never waits for an item. */
const READY_BATCHES = 3;
const MIN_READY = 8;

interface FlowCreditsOptions {
  /** Largest batch size, times the number of runners. */
  readonly batchItems: () => number;
  readonly maxReadyBytes: number;
  readonly memory: MemoryAccount;
  /** Bytes of an item's tensors, if all declared sizes are fixed; otherwise undefined. */
  readonly itemBytes: number | undefined;
  /** Called when memory is free again, after a lack of memory. */
  readonly onRoom: () => void;
}

/** Counts the inputs of all quarantined predictions, or of all other (usual) predictions. */
class Credits {
  readonly #flow: FlowCredits;
  readonly #maxBytes: number;
  /** Count of items that wait in the engine's queue. */
  ready = 0;
  /** Count of inputs that have left the engine's queue and have no result. */
  running = 0;
  /** Count of predictions with items in the engine's queue. */
  #lists = 0;
  /** Count of inputs with a pending `preprocess` promise. */
  #preparing = 0;
  /** Count of output rows that wait for `postprocess`, or have a pending `postprocess` promise. */
  #finishing = 0;
  /** Bytes of items in the engine's queue, of fetched files, and of the rows in `#finishing`. */
  bytes = 0;

  constructor(flow: FlowCredits, maxBytes: number) {
    this.#flow = flow;
    this.#maxBytes = maxBytes;
  }

  get used(): number {
    return this.ready + this.#preparing + this.#finishing;
  }

  /**
   * Whether one more input may begin.
   * @param isFirst whether its prediction has no item in the engine's queue. Then the limit counts predictions in the
   * queue, not items.
   */
  areLeft(isFirst = false): boolean {
    // The batches of quarantined items fail and run again in parts, so one such batch is in the engine at most.
    const isFull =
      this === this.#flow.quarantined
        ? this.running > 0 || this.ready >= this.#flow.batchItems
        : (isFirst ? this.#lists : this.ready) >= this.#flow.maxReady;
    if (isFull || this.#preparing >= MAX_PREPARING) return false;
    if (this.used === 0) return true;
    return this.#flow.hasBytes(this.#preparing, this.bytes, this.#maxBytes);
  }

  count(list: ItemList, change: 1 | -1): void {
    this.ready += change * list.ready;
    this.running += change * list.running;
    if (list.ready > 0) this.#lists += change;
    this.#preparing += change * list.preparing;
    this.#finishing += change * list.finishing;
    this.bytes += change * (list.bytes + list.rowBytes);
  }
}

export class FlowCredits {
  readonly #options: FlowCreditsOptions;
  /** Memory charge for tensors and rows. Fetched files have their own charges. */
  readonly #charge: Charge;
  readonly usual: Credits;
  readonly quarantined: Credits;
  /** Whether batches take so long that one prepared batch per runner suffices. More would wait needlessly long. */
  areBatchesLong = false;
  /** Count of inputs that are not in a batch yet. */
  unsent = 0;
  /** Expected bytes of the next item; undefined before the first item if its size is not declared. */
  #expectedBytes: number | undefined;

  constructor(options: FlowCreditsOptions) {
    this.#options = options;
    this.#charge = options.memory.add("tensors", 0);
    this.#expectedBytes = options.itemBytes;
    this.usual = new Credits(this, options.maxReadyBytes);
    this.quarantined = new Credits(this, QUARANTINED_SHARE * options.maxReadyBytes);
  }

  /** Count of inputs that have left the engine's queue and have no result. */
  get running(): number {
    return this.usual.running + this.quarantined.running;
  }

  /**
   * Count of inputs in batches. Without a running batch, the count of all begun inputs, because all may hang in
   * `preprocess`.
   */
  get inService(): number {
    return this.running || this.usual.used + this.quarantined.used;
  }

  /** Count of items in the engine's queue, and bytes of these items, of fetched files and of unfinished output rows. */
  get ready(): { readonly items: number; readonly bytes: number } {
    const { usual, quarantined } = this;
    return { items: usual.ready + quarantined.ready, bytes: usual.bytes + quarantined.bytes };
  }

  get batchItems(): number {
    return this.#options.batchItems();
  }

  /** Most items that may wait in the engine's queue. */
  get maxReady(): number {
    return this.areBatchesLong ? this.batchItems : Math.max(MIN_READY, READY_BATCHES * this.batchItems);
  }

  hasBytes(preparing: number, bytes: number, maxBytes: number): boolean {
    const { memory, onRoom } = this.#options;
    // Before the first item its size is unknown, so the count is limited.
    if (this.#expectedBytes === undefined && preparing >= this.maxReady) return false;
    const coming = preparing * (this.#expectedBytes ?? 0);
    if (bytes + coming >= maxBytes) return false;
    if (memory.hasRoom("tensors", HELD_PER_TENSOR_BYTE * (coming + (this.#expectedBytes ?? 0)))) return true;
    memory.onceRoom(onRoom);
    return false;
  }

  /** Counts the inputs of a new prediction as not in a batch yet. */
  add(list: ItemList): void {
    list.unsent = list.count;
    this.unsent += list.count;
  }

  /** Counts a prediction as quarantined, and not as usual. */
  quarantine(list: ItemList): void {
    this.usual.count(list, -1);
    list.isQuarantined = true;
    this.quarantined.count(list, 1);
  }

  /** Counts an item that begins to wait in the engine's queue, and charges the memory of its tensors. */
  enter({ lane, bytes, tensorBytes }: ListItem): void {
    const credits = this.#without(lane);
    lane.ready += 1;
    lane.bytes += bytes;
    credits.count(lane, 1);
    this.#holdTensors(lane, tensorBytes);
  }

  /** Counts an item that leaves the engine's queue. @returns false if the item has left the queue before */
  dispatched(item: ListItem): boolean {
    if (!this.leave(item)) return false;
    if (!item.lane.isOver) this.#move(item.lane, -1, 1);
    return true;
  }

  /** Removes an item from the counts of the engine's queue. @returns false if it was removed before */
  leave(item: ListItem): boolean {
    if (!item.isWaiting) return false;
    item.isWaiting = false;
    const { lane, bytes } = item;
    // At 0, the prediction has ended, and `clear` has subtracted its items.
    if (lane.ready > 0) {
      const credits = this.#without(lane);
      lane.ready -= 1;
      lane.bytes -= bytes;
      credits.count(lane, 1);
    }
    return true;
  }

  /** Subtracts an item that has a result, and frees its memory charge. */
  ended(item: ListItem): void {
    const wasUnsent = this.leave(item);
    const { lane, tensorBytes } = item;
    if (lane.isOver) return;
    this.#holdTensors(lane, -tensorBytes);
    this.#move(lane, wasUnsent ? -1 : 0, wasUnsent ? 0 : -1);
  }

  /** Subtracts an input that failed before it became an item. */
  failed(list: ItemList): void {
    if (!list.isOver) this.#move(list, -1, 0);
  }

  /** Subtracts an item that the engine refused, and frees its memory charge. Its input still counts until `failed`. */
  refused(item: ListItem): void {
    this.leave(item);
    if (!item.lane.isOver) this.#holdTensors(item.lane, -item.tensorBytes);
  }

  /** Counts an input whose `preprocess` returned a promise. */
  preparing(list: ItemList): void {
    const credits = this.#without(list);
    list.preparing += 1;
    credits.count(list, 1);
  }

  /**
   * Subtracts an input whose `preprocess` promise has settled.
   * @param bytes of the new item; undefined without an item
   */
  prepared(list: ItemList, bytes: number | undefined): void {
    // The expected size rises at once to a larger item and falls slowly, so that a few large items fit, too.
    if (bytes !== undefined) this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
    // At 0, the prediction has ended, and `clear` has subtracted its inputs.
    if (list.preparing === 0) return;
    const credits = this.#without(list);
    list.preparing -= 1;
    credits.count(list, 1);
  }

  /**
   * Counts a row of `bytes` bytes that `postprocess` has not finished.
   * @param change 1 when the row begins to wait or its promise begins, -1 when the wait or the promise ends
   */
  finishing(list: ItemList, bytes: number, change: 1 | -1): void {
    const credits = this.#without(list);
    list.finishing += change;
    list.rowBytes += change * bytes;
    credits.count(list, 1);
    this.#charge.grow(change * bytes);
  }

  /** Adds bytes of fetched files to a prediction; a negative number subtracts them. */
  holdFiles(list: ItemList, bytes: number): void {
    const credits = this.#without(list);
    list.bytes += bytes;
    credits.count(list, 1);
  }

  /**
   * Subtracts the inputs and memory of an ended prediction, but not rows that `postprocess` still has: `finishing`
   * subtracts these later.
   */
  clear(list: ItemList): void {
    this.#move(list, -list.unsent, -list.running);
    this.#holdTensors(list, -list.tensorBytes);
    const credits = this.#without(list);
    list.ready = 0;
    list.preparing = 0;
    list.bytes = 0;
    credits.count(list, 1);
  }

  /** Subtracts what a prediction counts. The caller changes the prediction, and counts it again. */
  #without(list: ItemList): Credits {
    const credits = this.#of(list);
    credits.count(list, -1);
    return credits;
  }

  #holdTensors(list: ItemList, bytes: number): void {
    list.tensorBytes += bytes;
    this.#charge.grow(HELD_PER_TENSOR_BYTE * bytes);
  }

  #move(list: ItemList, unsent: number, running: number): void {
    list.unsent += unsent;
    list.running += running;
    this.unsent += unsent;
    this.#of(list).running += running;
  }

  #of(list: ItemList): Credits {
    return list.isQuarantined ? this.quarantined : this.usual;
  }
}
