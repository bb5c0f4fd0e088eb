/** What is on its way through the model's code and the engine, in items and bytes, and whether there is room for more. */
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_TENSOR_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import type { ItemList, ListItem } from "./item-list.ts";

/** Inputs of all lists that the model's code is making ready at the same time. */
const MAX_PREPARING = 512;

/** Share of `maxReadyBytes` for lists whose items go behind all others: enough for a batch or two, as they wait long. */
const LATE_SHARE = 1 / 4;

/** Batches of ready items, so that the device never waits for one. */
export const READY_BATCHES = 3;
const MIN_READY = 8;

interface FlowRoomOptions {
  /** Items of a batch for each runner. */
  readonly batchItems: number;
  readonly maxReadyBytes: number;
  readonly memory: MemoryAccount;
  /** Bytes of an item where its declaration tells them. */
  readonly itemBytes: number | undefined;
  /** Called back when there was no room in memory and some was given back. */
  readonly onRoom: () => void;
}

/** Totals over lists. */
interface Held {
  ready: number;
  /** Lists with a ready item. */
  lists: number;
  preparing: number;
  /** Of ready items and fetched files. */
  bytes: number;
}

export class FlowRoom {
  readonly #options: FlowRoomOptions;
  /** All bytes but those of fetched files, which are charged from their first byte. */
  readonly #charge: Charge;
  readonly #usual: Held = { ready: 0, lists: 0, preparing: 0, bytes: 0 };
  /** Of lists whose items go behind all others: they hold up none of them. */
  readonly #late: Held = { ready: 0, lists: 0, preparing: 0, bytes: 0 };
  /** While clients leave before their answers only one batch is ready: items of a second batch would be too old when they run. */
  isUrgent = false;
  #finishing = 0;
  /** Bytes of rows that wait for `postprocess`, or that an asynchronous one has. */
  #rowBytes = 0;
  /** Expected bytes of an item that is being prepared: as declared, else by those before it; undefined before the first. */
  #expectedBytes: number | undefined;

  constructor(options: FlowRoomOptions) {
    this.#options = options;
    this.#charge = options.memory.add("tensors", 0);
    this.#expectedBytes = options.itemBytes;
  }

  /** Items that wait for a batch; bytes of these, of fetched files and of rows on their way to `postprocess`. */
  get ready(): { readonly items: number; readonly bytes: number } {
    const [usual, late] = [this.#usual, this.#late];
    return { items: usual.ready + late.ready, bytes: usual.bytes + late.bytes + this.#rowBytes };
  }

  /** Most items that wait for a batch. */
  get #maxReady(): number {
    const { batchItems } = this.#options;
    return this.isUrgent ? batchItems : Math.max(MIN_READY, READY_BATCHES * batchItems);
  }

  /**
   * Whether one more input may be begun, beside what is ready and what is being made ready; one alone is always let in.
   * @param isFirst of its list: many items of others leave it as much room as others' first ones do
   */
  isThere(isFirst = false): boolean {
    const { maxReadyBytes } = this.#options;
    const maxReady = this.#maxReady;
    const { ready, lists, preparing, bytes } = this.#usual;
    if ((isFirst ? lists : ready) >= maxReady || preparing >= MAX_PREPARING) return false;
    if (ready + preparing + this.#finishing === 0) return true;
    return this.#fits(preparing, bytes + this.#rowBytes, maxReadyBytes);
  }

  /** The same for an input of a list whose items go behind all others. */
  get isThereForLate(): boolean {
    const { maxReadyBytes } = this.#options;
    const { ready, preparing, bytes } = this.#late;
    if (ready >= this.#maxReady || preparing >= MAX_PREPARING) return false;
    if (ready + preparing === 0) return true;
    return this.#fits(preparing, bytes, LATE_SHARE * maxReadyBytes);
  }

  #fits(preparing: number, bytes: number, maxBytes: number): boolean {
    const { memory, onRoom } = this.#options;
    // Before the first of its kind is ready nobody knows how large they are.
    if (this.#expectedBytes === undefined && preparing >= this.#maxReady) return false;
    const coming = preparing * (this.#expectedBytes ?? 0);
    if (bytes + coming >= maxBytes) return false;
    if (memory.hasRoom("tensors", HELD_PER_TENSOR_BYTE * (coming + (this.#expectedBytes ?? 0)))) return true;
    memory.onceRoom(onRoom);
    return false;
  }

  #of({ isLate }: ItemList): Held {
    return isLate ? this.#late : this.#usual;
  }

  /** A list's items go behind all others from now on. */
  putBehind(list: ItemList): void {
    if (list.isLate) return;
    this.#count(list, -1);
    list.isLate = true;
    this.#count(list, 1);
  }

  #count(list: ItemList, change: 1 | -1): void {
    const held = this.#of(list);
    held.ready += change * list.ready;
    if (list.ready > 0) held.lists += change;
    held.preparing += change * list.preparing;
    held.bytes += change * list.bytes;
  }

  /** An item waits for a batch. */
  enter({ lane, bytes, tensorBytes }: ListItem): void {
    const held = this.#of(lane);
    held.ready += 1;
    if (lane.ready === 0) held.lists += 1;
    lane.ready += 1;
    this.hold(lane, bytes, tensorBytes);
  }

  /** It waits no more. Of a list that was ended nothing is counted any more. */
  leave(item: ListItem): void {
    if (!item.isWaiting) return;
    item.isWaiting = false;
    const { lane, bytes } = item;
    if (lane.ready === 0) return;
    const held = this.#of(lane);
    lane.ready -= 1;
    held.ready -= 1;
    if (lane.ready === 0) held.lists -= 1;
    this.hold(lane, -bytes, 0);
  }

  /** Its batch has ended: until then its tensors are held. */
  ended({ lane, tensorBytes }: ListItem): void {
    if (!lane.isOver) this.hold(lane, 0, -tensorBytes);
  }

  /** The model's code makes an input ready, asynchronously. */
  preparing(list: ItemList): void {
    list.preparing += 1;
    this.#of(list).preparing += 1;
  }

  /** @param bytes of the item that was made; undefined where there is none */
  prepared(list: ItemList, bytes: number | undefined): void {
    // Follows larger items at once and smaller ones slowly: a few large ones among many small must not be underestimated.
    if (bytes !== undefined) this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
    // Of a list that was ended nothing is counted any more.
    if (list.preparing === 0) return;
    list.preparing -= 1;
    this.#of(list).preparing -= 1;
  }

  /** Rows of so many bytes begin, or end, to wait for `postprocess` or to be in an asynchronous one. */
  finishing(list: ItemList, bytes: number, change: 1 | -1): void {
    list.finishing += change;
    list.rowBytes += change * bytes;
    this.#finishing += change;
    this.#rowBytes += change * bytes;
    this.#charge.grow(change * bytes);
  }

  /** A list holds so many bytes more. */
  hold(list: ItemList, bytes: number, tensorBytes: number): void {
    list.bytes += bytes;
    list.tensorBytes += tensorBytes;
    this.#of(list).bytes += bytes;
    this.#charge.grow(HELD_PER_TENSOR_BYTE * tensorBytes);
  }

  /** Forgets all that a list has. */
  clear(list: ItemList): void {
    this.#count(list, -1);
    this.#charge.grow(-HELD_PER_TENSOR_BYTE * list.tensorBytes);
    list.ready = 0;
    list.preparing = 0;
    list.bytes = 0;
    list.tensorBytes = 0;
  }
}
