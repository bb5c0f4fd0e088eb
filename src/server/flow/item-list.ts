/** Inputs on their way to outputs: a prediction's, or those that a demo sends through the model. */

import { Fifo } from "../../base/collections/fifo.ts";
import type { InRing, Ring } from "../../base/collections/ring.ts";
import { codedError, type SconceError } from "../../base/errors.ts";
import type { Item } from "../../engine/engine.ts";
import type { InputList } from "../inputs/input-list.ts";
import { HELD_PER_TENSOR_BYTE } from "../memory/memory-account.ts";
import type { FetchedFiles } from "./fetched-files.ts";
import type { Sender } from "./quarantine.ts";
import type { InputPlace } from "./running-hooks.ts";

/** Why a list is given up before any of its inputs was begun. */
export type Refusal = "overload" | "late";

export interface ItemListOptions {
  /** In `performance.now()` milliseconds; by default there is none. */
  readonly deadlineMs?: number;
  /** Whether a client waits for the outputs, and is not known to come back for them. */
  readonly isWaitedFor?: boolean;
  /** Who sent them, where that matters. */
  readonly client?: Sender | undefined;
  /** Undefined for inputs that a demo sends. */
  readonly predictionId?: string;
}

/** Who wants the outputs. It is told of each input's end exactly once, until it ends the list. */
export interface OutputReceiver {
  /** Outputs are for `encode` alone, and may come as text already. */
  readonly takesText?: boolean;
  /** The model's code is called for an input. */
  begun?(): void;
  /** An item was given to a runner. */
  dispatched?(): void;
  /**
   * @param output what the model made, not yet checked against the declared output
   * @throws SconceError `output_invalid`, which fails the input
   */
  succeeded(index: number, output: unknown): void;
  failed(index: number, error: SconceError): void;
  /** No input was begun, and none will be: the queue is too long, or what is left of its time too short. Called at most once, and last. */
  refused?(why: Refusal): void;
  /** Calls the model's code for an input. */
  scope?<T>(task: () => T): T;
}

export class ItemList implements InRing<ItemList> {
  ring: Ring<ItemList> | undefined = undefined;
  before: ItemList | undefined = undefined;
  after: ItemList | undefined = undefined;
  readonly count: number;
  readonly deadlineMs: number;
  isWaitedFor: boolean;
  readonly client: Sender | undefined;
  /** Its items share no batch with items of other clients, and run after them. */
  isQuarantined = false;
  /** Number of its turn: the lowest number of a client's lists is next. */
  turn = 0;
  /** When it began to wait for its first turn, and its place among the lists that wait for theirs. */
  queuedAtMs = 0;
  arrival: Arrival | undefined = undefined;
  /** Index of the next input that has not been begun. */
  next = 0;
  /** Inputs whose files are being fetched, and those that are there and wait to be made ready. */
  fetching = 0;
  readonly fetched: number[] = [];
  /** Inputs whose files wait to be fetched. */
  readonly unfetched = new Fifo<number>();
  /** Inputs that the model's code is asynchronously making ready. */
  preparing = 0;
  /** Inputs whose rows wait for their turn, or whose outputs the model's code is asynchronously making. */
  finishing = 0;
  isRefused = false;
  /** Items that wait in the engine. */
  ready = 0;
  /** Inputs that are not yet in a batch, once they come in turn, and those that are in one. */
  unsent = 0;
  running = 0;
  /** Of the items that wait, and of fetched files. */
  bytes = 0;
  /** Of these, what the account of memory counts with tensors: files that were fetched it counts from their first byte. */
  tensorBytes = 0;
  /** Of the rows of those that are finishing. */
  rowBytes = 0;
  readonly #predictionId: string | undefined;
  #inputs: InputList | undefined;
  #left: number;
  readonly #receiver: OutputReceiver;
  #abort: AbortController | undefined;
  /** The files that inputs had fetched, by index, until they end. */
  #files: Map<number, FetchedFiles> | undefined;

  /** @param inputs are given away, and dropped one by one */
  constructor(
    inputs: InputList,
    receiver: OutputReceiver,
    { deadlineMs = Infinity, isWaitedFor = false, client, predictionId }: ItemListOptions = {},
  ) {
    this.#predictionId = predictionId;
    this.deadlineMs = deadlineMs;
    this.isWaitedFor = isWaitedFor;
    this.client = client;
    this.count = inputs.length;
    this.#left = inputs.length;
    this.#inputs = inputs;
    this.#receiver = receiver;
  }

  /** Nobody waits for its outputs any more. */
  get isOver(): boolean {
    return this.#inputs === undefined;
  }

  /** Every input has come to its end. */
  get isComplete(): boolean {
    return this.#left === 0;
  }

  /** Fires when nobody waits any more; made only for those who ask. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  input(index: number): unknown {
    return this.#inputs?.get(index);
  }

  /** Undefined for an input that a demo sends. */
  place(index: number): InputPlace | undefined {
    return this.#predictionId === undefined ? undefined : { predictionId: this.#predictionId, index };
  }

  /** Fetched files of an input, to be let go of at its end. */
  hold(index: number, files: FetchedFiles): void {
    this.#files ??= new Map();
    if (this.isOver) files[Symbol.dispose]();
    else this.#files.set(index, files);
  }

  /** Bytes of the files that an input had fetched. */
  fetchedBytes(index: number): number {
    return this.#files?.get(index)?.bytes ?? 0;
  }

  /** Bytes of the account of memory that its inputs hold on their way: fetched files, tensors and rows. */
  get heldBytes(): number {
    let bytes = HELD_PER_TENSOR_BYTE * this.tensorBytes + this.rowBytes;
    for (const files of this.#files?.values() ?? []) bytes += files.bytes;
    return bytes;
  }

  /** Whether the model's code runs in a `scope`; where it does not, none need be made. */
  get isScoped(): boolean {
    return this.#receiver.scope !== undefined;
  }

  /** Runs the model's code for an input. */
  scope<T>(task: () => T): T {
    return this.#receiver.scope === undefined ? task() : this.#receiver.scope(task);
  }

  /** Whether outputs may come as text already. */
  get takesText(): boolean {
    return this.#receiver.takesText ?? false;
  }

  begun(): void {
    this.#receiver.begun?.();
  }

  dispatched(): void {
    if (!this.isOver) this.#receiver.dispatched?.();
  }

  succeeded(index: number, output: unknown): void {
    if (this.isOver) return;
    this.#left -= 1;
    try {
      this.#receiver.succeeded(index, output);
    } catch (error) {
      this.#receiver.failed(index, codedError(error));
    }
    this.#drop(index);
  }

  failed(index: number, error: SconceError): void {
    if (this.isOver) return;
    this.#left -= 1;
    this.#receiver.failed(index, error);
    this.#drop(index);
  }

  refuse(why: Refusal): void {
    this.isRefused = true;
    if (!this.isOver) this.#receiver.refused?.(why);
  }

  /** Lets go of the inputs; nobody is told of anything any more. */
  end(): void {
    this.#inputs = undefined;
    this.#abort?.abort();
    for (const files of this.#files?.values() ?? []) files[Symbol.dispose]();
    this.#files = undefined;
  }

  #drop(index: number): void {
    this.#inputs?.drop(index);
    this.#files?.get(index)?.[Symbol.dispose]();
    this.#files?.delete(index);
  }
}

/** A list that waits for its first turn, among all of these in the order in which they came. */
export class Arrival implements InRing<Arrival> {
  ring: Ring<Arrival> | undefined = undefined;
  before: Arrival | undefined = undefined;
  after: Arrival | undefined = undefined;
  readonly list: ItemList;

  constructor(list: ItemList) {
    this.list = list;
  }
}

/** One input of a list in the engine. */
export class ListItem implements Item {
  readonly lane: ItemList;
  readonly index: number;
  /** That it holds while it waits for a batch. */
  readonly bytes: number;
  /** Of these, without the files that were fetched. */
  readonly tensorBytes: number;
  /** For its first batch: of one that failed it may be given to another. */
  isWaiting = true;
  /** In `performance.now()` milliseconds. */
  readonly readyAtMs: number;
  dispatchedAtMs: number;

  constructor(
    lane: ItemList,
    index: number,
    { bytes, tensorBytes, readyAtMs }: { bytes: number; tensorBytes: number; readyAtMs: number },
  ) {
    this.lane = lane;
    this.index = index;
    this.bytes = bytes;
    this.tensorBytes = tensorBytes;
    this.readyAtMs = readyAtMs;
    this.dispatchedAtMs = readyAtMs;
  }

  get isLate(): boolean {
    return this.lane.isQuarantined;
  }
}
