/** Credits bound the inputs between the queue and the batches, in items and bytes. Quarantined lists have credits of their own. */
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_TENSOR_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import type { ItemList, ListItem } from "./item-list.ts";

/** Limit for asynchronous `preprocess` calls at the same time. */
const MAX_PREPARING = 512;

/** Share of `maxReadyBytes` for quarantined lists: their items wait longer for a batch. */
const QUARANTINED_SHARE = 1 / 4;

/** Batches of ready items, so that the device never waits for an item. */
const READY_BATCHES = 3;
const MIN_READY = 8;
/** Least wait of a ready item for its batch, as a share of a batch: a shorter wait may let the device wait. */
const LEAST_WAIT = 1 / 4;
/** Longest hold, as a share of a batch. */
const MAX_HOLD = 3 / 4;
/** Weight of the newest wait in a hold that becomes longer. */
const LONGER_WEIGHT = 1 / 4;

interface FlowCreditsOptions {
  /** The largest batch, times the runners. */
  readonly batchItems: () => number;
  readonly maxReadyBytes: number;
  readonly memory: MemoryAccount;
  /** Declared bytes of an item; undefined for shapes that are not fixed. */
  readonly itemBytes: number | undefined;
  /** Called when memory is free again after a lack of memory. */
  readonly onRoom: () => void;
}

/** Credits of all lists of one kind. */
class Credits {
  readonly #flow: FlowCredits;
  readonly #maxBytes: number;
  /** Count of items in the engine's queue. */
  ready = 0;
  /** Count of lists with items in the engine's queue. */
  #lists = 0;
  /** Count of inputs in an asynchronous `preprocess`. */
  #preparing = 0;
  /** Count of rows that wait for `postprocess`, or are in an asynchronous `postprocess`. */
  #finishing = 0;
  /** Bytes of ready items, of fetched files and of the rows that `#finishing` counts. */
  bytes = 0;

  constructor(flow: FlowCredits, maxBytes: number) {
    this.#flow = flow;
    this.#maxBytes = maxBytes;
  }

  /** Count of inputs that hold a credit. */
  get used(): number {
    return this.ready + this.#preparing + this.#finishing;
  }

  /**
   * Whether one more input may begin. A single input always may.
   * @param isFirst whether its list has no ready item: many items of other lists do not hold it up
   */
  areLeft(isFirst = false): boolean {
    const { maxReady, isHeld } = this.#flow;
    if (isHeld && this === this.#flow.usual) return false;
    if ((isFirst ? this.#lists : this.ready) >= maxReady || this.#preparing >= MAX_PREPARING) return false;
    if (this.used === 0) return true;
    return this.#flow.hasBytes(this.#preparing, this.bytes, this.#maxBytes);
  }

  count(list: ItemList, change: 1 | -1): void {
    this.ready += change * list.ready;
    if (list.ready > 0) this.#lists += change;
    this.#preparing += change * list.preparing;
    this.#finishing += change * list.finishing;
    this.bytes += change * (list.bytes + list.rowBytes);
  }
}

export class FlowCredits {
  readonly #options: FlowCreditsOptions;
  /** All bytes except fetched files, which are charged from their first byte. */
  readonly #charge: Charge;
  readonly usual: Credits;
  readonly quarantined: Credits;
  /** Whether one batch of ready items is enough: under overload, items of a second batch would be too old. */
  isUrgent = false;
  /** For impatient clients, no input begins before this time. */
  #heldUntilMs = -Infinity;
  #holdMs = 0;
  /** Count of inputs before their batch. */
  unsent = 0;
  /** Count of inputs in a batch. */
  running = 0;
  /** Declared bytes of an item, or a recent maximum; undefined before the first item. */
  #expectedBytes: number | undefined;

  constructor(options: FlowCreditsOptions) {
    this.#options = options;
    this.#charge = options.memory.add("tensors", 0);
    this.#expectedBytes = options.itemBytes;
    this.usual = new Credits(this, options.maxReadyBytes);
    this.quarantined = new Credits(this, QUARANTINED_SHARE * options.maxReadyBytes);
  }

  /** Count of inputs in a batch. Before the first batch, inputs with a credit: they may all hang in `preprocess`. */
  get inService(): number {
    return this.running || this.usual.used + this.quarantined.used;
  }

  /** Queued items; bytes of queued items, of fetched files and of rows that `postprocess` has not finished. */
  get ready(): { readonly items: number; readonly bytes: number } {
    const { usual, quarantined } = this;
    return { items: usual.ready + quarantined.ready, bytes: usual.bytes + quarantined.bytes };
  }

  /** Limit for queued items. */
  get maxReady(): number {
    const batchItems = this.#options.batchItems();
    return this.isUrgent ? batchItems : Math.max(MIN_READY, READY_BATCHES * batchItems);
  }

  /** Whether inputs of the next batch begin later: now, they would wait for the whole running batch. */
  get isHeld(): boolean {
    return this.isUrgent && performance.now() < this.#heldUntilMs;
  }

  /**
   * A batch of about `batchMs` took the ready items, after the oldest item waited `waitMs` for it. Inputs begin later in the next batch if the wait
   * is longer than needed, and sooner if it is shorter: then the device may have waited for items.
   * @returns milliseconds in which no input begins
   */
  hold(waitMs: number, batchMs: number): number {
    const excessMs = waitMs - LEAST_WAIT * batchMs;
    const ms = this.#holdMs + (excessMs > 0 ? LONGER_WEIGHT : 1) * excessMs;
    this.#holdMs = Math.max(0, Math.min(ms, MAX_HOLD * batchMs));
    this.#heldUntilMs = performance.now() + this.#holdMs;
    return this.#holdMs;
  }

  hasBytes(preparing: number, bytes: number, maxBytes: number): boolean {
    const { memory, onRoom } = this.#options;
    // The size of an item is unknown before the first item.
    if (this.#expectedBytes === undefined && preparing >= this.maxReady) return false;
    const coming = preparing * (this.#expectedBytes ?? 0);
    if (bytes + coming >= maxBytes) return false;
    if (memory.hasRoom("tensors", HELD_PER_TENSOR_BYTE * (coming + (this.#expectedBytes ?? 0)))) return true;
    memory.onceRoom(onRoom);
    return false;
  }

  /** A new list waits for its first turn. */
  add(list: ItemList): void {
    list.unsent = list.count;
    this.unsent += list.count;
  }

  /** The list uses the credits of quarantined lists from now on. */
  quarantine(list: ItemList): void {
    this.usual.count(list, -1);
    list.isQuarantined = true;
    this.quarantined.count(list, 1);
  }

  /** The item waits for a batch. */
  enter({ lane, bytes, tensorBytes }: ListItem): void {
    const credits = this.#without(lane);
    lane.ready += 1;
    lane.bytes += bytes;
    credits.count(lane, 1);
    this.#holdTensors(lane, tensorBytes);
  }

  /** The item was dispatched. @returns false after an earlier, failed batch */
  dispatched(item: ListItem): boolean {
    if (!this.leave(item)) return false;
    if (!item.lane.isOver) this.#move(item.lane, -1, 1);
    return true;
  }

  /** The item leaves the queue for its first batch. @returns false after an earlier batch */
  leave(item: ListItem): boolean {
    if (!item.isWaiting) return false;
    item.isWaiting = false;
    const { lane, bytes } = item;
    // `clear` has counted the items of an ended list.
    if (lane.ready > 0) {
      const credits = this.#without(lane);
      lane.ready -= 1;
      lane.bytes -= bytes;
      credits.count(lane, 1);
    }
    return true;
  }

  /** The item has a result, and its tensors are freed. */
  ended(item: ListItem): void {
    const wasUnsent = this.leave(item);
    const { lane, tensorBytes } = item;
    if (lane.isOver) return;
    this.#holdTensors(lane, -tensorBytes);
    this.#move(lane, wasUnsent ? -1 : 0, wasUnsent ? 0 : -1);
  }

  /** An input failed before it became an item. */
  failed(list: ItemList): void {
    if (!list.isOver) this.#move(list, -1, 0);
  }

  /** The engine refused the item. */
  refused(item: ListItem): void {
    this.leave(item);
    if (!item.lane.isOver) this.#holdTensors(item.lane, -item.tensorBytes);
  }

  /** An asynchronous `preprocess` began. */
  preparing(list: ItemList): void {
    const credits = this.#without(list);
    list.preparing += 1;
    credits.count(list, 1);
  }

  /** @param bytes of the new item; undefined without an item */
  prepared(list: ItemList, bytes: number | undefined): void {
    // Follows larger items at once and smaller items slowly, so that a few large items are not underestimated.
    if (bytes !== undefined) this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
    // `clear` has counted the inputs of an ended list.
    if (list.preparing === 0) return;
    const credits = this.#without(list);
    list.preparing -= 1;
    credits.count(list, 1);
  }

  /** A row of so many bytes begins (1) or ends (-1) to wait for `postprocess`, or to be in an asynchronous `postprocess`. */
  finishing(list: ItemList, bytes: number, change: 1 | -1): void {
    const credits = this.#without(list);
    list.finishing += change;
    list.rowBytes += change * bytes;
    credits.count(list, 1);
    this.#charge.grow(change * bytes);
  }

  /** A list has so many bytes more of fetched files. */
  holdFiles(list: ItemList, bytes: number): void {
    const credits = this.#without(list);
    list.bytes += bytes;
    credits.count(list, 1);
  }

  /** The list has ended. */
  clear(list: ItemList): void {
    this.#move(list, -list.unsent, -list.running);
    this.#holdTensors(list, -list.tensorBytes);
    const credits = this.#without(list);
    list.ready = 0;
    list.preparing = 0;
    list.bytes = 0;
    credits.count(list, 1);
  }

  /** @returns the credits of a list, for the list to be counted again after a change */
  #without(list: ItemList): Credits {
    const credits = list.isQuarantined ? this.quarantined : this.usual;
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
    this.running += running;
  }
}
