/** The inputs of a prediction, or of a demo, until they have outputs. */

import type { HookCaller } from "../../author/hook-context.ts";
import { Fifo } from "../../base/collections/fifo.ts";
import type { InRing, Ring } from "../../base/collections/ring.ts";
import { codedError, type SconceError } from "../../base/errors.ts";
import type { Item } from "../../engine/engine.ts";
import type { InputList } from "../inputs/input-list.ts";
import { HELD_PER_TENSOR_BYTE } from "../memory/memory-account.ts";
import type { BatchSpan, PredictionSpan } from "../telemetry/tracing.ts";
import type { FetchedFiles } from "./fetched-files.ts";
import type { PartsReceiver } from "./item-pipeline.ts";
import type { Encoded } from "./output-encoder.ts";
import type { Sender } from "./quarantine.ts";
import type { InputPlace } from "./running-hooks.ts";

/**
 * Why a list is refused before its first input has begun. `overload`: newer lists displaced it. `late`: its first input
 * cannot end before the deadline.
 */
export type Refusal = "overload" | "late";

export interface ItemListOptions {
  /** In `performance.now()` milliseconds; by default there is none. */
  readonly deadlineMs?: number;
  /** Whether a client waits for the outputs, and is not known to come back for them. */
  readonly isWaitedFor?: boolean;
  /** The sender, if senders matter now. */
  readonly client?: Sender | undefined;
  /** Undefined for inputs that a demo sends. */
  readonly predictionId?: string;
  /** Undefined without tracing. */
  readonly span?: PredictionSpan | undefined;
}

/** The form of outputs as text. */
export interface TextForm {
  /** Output fields whose arrays become data URIs of their bytes. Other arrays become lists of numbers. */
  readonly byteFields: readonly string[];
}

/** All arrays become lists of numbers. */
export const listForm: TextForm = { byteFields: [] };

/** Receives the result of each input exactly once, until it ends the list. */
export interface OutputReceiver {
  /** Set if only `encode` reads the outputs. An output may then be text already, in this form. */
  readonly textForm?: TextForm | undefined;
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
  /** No input begins: the queue is too long, or the time left is too short. Called at most once, and last. */
  refused?(why: Refusal): void;
  /** Calls the model's code for an input. */
  scope?<T>(task: () => T): T;
  /** Parts of outputs; undefined where nobody needs them. */
  readonly parts?: PartsReceiver | undefined;
  /** Takes a line that a hook logs. Default: `console`. */
  log?(index: number, text: string): void;
}

export class ItemList implements InRing<ItemList> {
  ring: Ring<ItemList> | undefined = undefined;
  before: ItemList | undefined = undefined;
  after: ItemList | undefined = undefined;
  readonly count: number;
  readonly deadlineMs: number;
  isWaitedFor: boolean;
  readonly client: Sender | undefined;
  readonly span: PredictionSpan | undefined;
  /** Quarantined items share no batch with items of other clients, and run after them. */
  isQuarantined = false;
  /** Number of its turn: the lowest number of a client's lists is next. */
  turn = 0;
  /** Start of the wait for the first turn, and its entry in the order of arrival. */
  queuedAtMs = 0;
  arrival: Arrival | undefined = undefined;
  /** Index of the next input that has not been begun. */
  next = 0;
  /** Count of inputs whose files are being fetched, and inputs with fetched files. */
  fetching = 0;
  readonly fetched: number[] = [];
  /** Inputs whose files wait to be fetched. */
  readonly unfetched = new Fifo<number>();
  /** Count of inputs in an asynchronous `preprocess`. */
  preparing = 0;
  /** Count of inputs that wait for `postprocess`, or are in an asynchronous `postprocess`. */
  finishing = 0;
  isRefused = false;
  /** Count of items in the queue of the engine. */
  ready = 0;
  /** Count of inputs before a batch, and in a batch. */
  unsent = 0;
  running = 0;
  /** Bytes of queued items and of fetched files. */
  bytes = 0;
  /** Bytes in the charge for tensors. Fetched files have charges from their first byte. */
  tensorBytes = 0;
  /** Bytes of the rows of finishing inputs. */
  rowBytes = 0;
  readonly #predictionId: string | undefined;
  #inputs: InputList | undefined;
  #left: number;
  readonly #receiver: OutputReceiver;
  #abort: AbortController | undefined;
  /** Fetched files by index of the input. */
  #files: Map<number, FetchedFiles> | undefined;

  /** @param inputs are given away, and dropped one by one */
  constructor(
    inputs: InputList,
    receiver: OutputReceiver,
    { deadlineMs = Infinity, isWaitedFor = false, client, predictionId, span }: ItemListOptions = {},
  ) {
    this.#predictionId = predictionId;
    this.deadlineMs = deadlineMs;
    this.isWaitedFor = isWaitedFor;
    this.client = client;
    this.span = span;
    this.count = inputs.length;
    this.#left = inputs.length;
    this.#inputs = inputs;
    this.#receiver = receiver;
  }

  /** Whether the list was ended. */
  get isOver(): boolean {
    return this.#inputs === undefined;
  }

  /** Whether every input has a result. */
  get isComplete(): boolean {
    return this.#left === 0;
  }

  /** Fires when the list is ended. Created on demand. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  input(index: number): unknown {
    return this.#inputs?.get(index);
  }

  /** The caller of a hook for an input. */
  caller(index: number): HookCaller {
    return new InputCaller(this, this.#receiver, index);
  }

  /** Undefined for an input that a demo sends. */
  place(index: number): InputPlace | undefined {
    return this.#predictionId === undefined ? undefined : { predictionId: this.#predictionId, index };
  }

  /** Keeps the fetched files of an input until its result. */
  hold(index: number, files: FetchedFiles): void {
    this.#files ??= new Map();
    if (this.isOver) files[Symbol.dispose]();
    else this.#files.set(index, files);
  }

  /** Bytes of the fetched files of an input. */
  fetchedBytes(index: number): number {
    return this.#files?.get(index)?.bytes ?? 0;
  }

  /** Charged bytes of its inputs: fetched files, tensors and rows. */
  get heldBytes(): number {
    let bytes = HELD_PER_TENSOR_BYTE * this.tensorBytes + this.rowBytes;
    for (const files of this.#files?.values() ?? []) bytes += files.bytes;
    return bytes;
  }

  /** Whether the model's code runs in a `scope`. */
  get isScoped(): boolean {
    return this.#receiver.scope !== undefined;
  }

  /** Runs the model's code for an input. */
  scope<T>(task: () => T): T {
    return this.#receiver.scope === undefined ? task() : this.#receiver.scope(task);
  }

  /** Set if outputs may come as text already. */
  get textForm(): TextForm | undefined {
    return this.#receiver.textForm;
  }

  begun(): void {
    this.#receiver.begun?.();
  }

  dispatched(): void {
    if (!this.isOver) this.#receiver.dispatched?.();
  }

  part(index: number, text: Encoded): void {
    if (!this.isOver) this.#receiver.parts?.add(index, text);
  }

  /** The input runs again. The earlier parts of the input are void. */
  restarted(index: number): void {
    if (!this.isOver) this.#receiver.parts?.restart(index);
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

  /** Frees the inputs. The receiver hears no more. */
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

class InputCaller implements HookCaller {
  readonly #list: ItemList;
  readonly #receiver: OutputReceiver;
  readonly #index: number;

  constructor(list: ItemList, receiver: OutputReceiver, index: number) {
    this.#list = list;
    this.#receiver = receiver;
    this.#index = index;
  }

  get signal(): AbortSignal {
    return this.#list.signal;
  }

  get log(): HookCaller["log"] {
    if (this.#receiver.log === undefined) return undefined;
    return (text) => this.#receiver.log?.(this.#index, text);
  }
}

/** The entry of a list in the order of arrival, until its first turn. */
export class Arrival implements InRing<Arrival> {
  ring: Ring<Arrival> | undefined = undefined;
  before: Arrival | undefined = undefined;
  after: Arrival | undefined = undefined;
  readonly list: ItemList;

  constructor(list: ItemList) {
    this.list = list;
  }
}

/** Progress of an item for which `predict` yields rows. Each row becomes a part of the output, in order. */
export interface ItemParts {
  /** Number of parts so far. */
  sequence: number;
  /** Resolves when all rows so far have become parts. */
  last: Promise<void>;
  /** Fails the item at the end of its batch. */
  error: SconceError | undefined;
}

/** An input of a list in the engine. */
export class ListItem implements Item {
  readonly lane: ItemList;
  readonly index: number;
  /** Bytes that the item holds in the queue. */
  readonly bytes: number;
  /** The same without fetched files. */
  readonly tensorBytes: number;
  /** Whether the item waits for its first batch. It runs in more batches if that one fails. */
  isWaiting = true;
  /** In `performance.now()` milliseconds. */
  readonly readyAtMs: number;
  dispatchedAtMs: number;
  /** Parts that `predict` yielded in this run of the item. */
  parts: ItemParts | undefined = undefined;
  /** Batch of the item; undefined without tracing. */
  batch: BatchSpan | undefined = undefined;

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

  get isDeprioritised(): boolean {
    return this.lane.isQuarantined;
  }
}
