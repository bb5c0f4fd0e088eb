/** The inputs of a prediction or of a demo, until they have outputs. */

import type { PartContext } from "../author/hook-context.ts";
import { type InRing, Ring } from "../base/collections/ring.ts";
import { codedError, type SconceError } from "../base/errors.ts";
import type { Item } from "../engine/engine.ts";
import type { ClientQueue, Sender } from "./client.ts";
import type { InputList } from "./inputs/input-list.ts";
import type { InputCall, PartsReceiver } from "./item-pipeline.ts";
import type { FileMemory } from "./memory/file-memory.ts";
import { HELD_PER_TENSOR_BYTE } from "./memory/memory-account.ts";
import type { Encoded, TextForm } from "./output-encoder.ts";
import type { PredictionSpan } from "./spans.ts";

export interface ItemListOptions {
  /** The prediction expires if its first input cannot end before this time of `performance.now()`. Default: never. */
  readonly deadlineMs?: number;
  /** The sender; undefined if it is unknown, or not needed now. */
  readonly sender?: Sender | undefined;
  /** Id of the prediction; undefined for inputs that `predictAll` runs, such as the inputs of a demo. */
  readonly predictionId?: string;
  /** Tracing span of the prediction; undefined without tracing. */
  readonly span?: PredictionSpan | undefined;
}

/** Receives the result of each input exactly once, until the prediction ends. */
export interface OutputReceiver {
  /**
   * With this form, `succeeded` may get an output as JSON text. Only `OutputEncoder.encode` can read such an output.
   */
  readonly textForm?: TextForm | undefined;
  /** Called for each input, before its `preprocess` runs. */
  processing?(): void;
  /** Called for each input that leaves the engine's queue for a batch, and when a failed batch runs again. */
  dispatched?(): void;
  /**
   * Called with the output of an input.
   * @param output value of the model, not checked against the declared schema
   * @param nowMs the present time of `performance.now()`, if the caller knows it
   * @throws SconceError `output_invalid`, which fails the input
   */
  succeeded(index: number, output: unknown, nowMs?: number): void;
  failed(index: number, error: SconceError): void;
  /** Called at most once, and last: the first input cannot end before the deadline. */
  expired?(): void;
  /** Wraps each call of the model's code for an input. */
  scope?<T>(task: () => T): T;
  /** Receives parts of outputs while the model computes them; undefined if no client reads parts. */
  readonly parts?: PartsReceiver | undefined;
  /** Stops work on the files of the inputs. Default: the end of the prediction. */
  readonly fileSignal?: AbortSignal;
  /** Takes a line that a hook logs. Default: `console`. */
  log?(index: number, text: string): void;
}

/** Numbers of predictions wrap around at this value, far above the count of unfinished ones. */
const NUMBERS = 2 ** 30;
let lastNumber = 0;

export class ItemList implements InRing<ItemList> {
  ring: Ring<ItemList> | undefined = undefined;
  before: ItemList | undefined = undefined;
  after: ItemList | undefined = undefined;
  /** Number of the prediction in frames. */
  readonly number: number;
  readonly count: number;
  readonly deadlineMs: number;
  readonly sender: Sender | undefined;
  /** The client whose turns the prediction takes; undefined before the prediction has entered the flow. */
  client: ClientQueue<ItemList> | undefined = undefined;
  readonly span: PredictionSpan | undefined;
  /** Index of the next input that has not started. */
  next = 0;
  /** Count of inputs whose files are being fetched. */
  fetching = 0;
  /** Inputs whose files are fetched, and which wait for `preprocess`. */
  readonly fetched: ListItem[] = [];
  /** Count of inputs with a pending `preprocess` promise. */
  preparing = 0;
  /** Number of output rows before the end of `postprocess`. */
  finishing = 0;
  /** Items of the prediction in the engine. */
  readonly items = new Ring<ListItem>();
  /** Count of its items in the engine's queue. */
  ready = 0;
  /** Count of inputs that are not in a batch yet. */
  unsent = 0;
  /** Bytes of the rows that `finishing` counts. */
  rowBytes = 0;
  /** Id of the prediction; undefined for inputs that `predictAll` runs. */
  readonly predictionId: string | undefined;
  readonly receiver: OutputReceiver;
  #inputs: InputList | undefined;
  #left: number;
  #abort: AbortController | undefined;
  /** Fetched files, by the index of the input. */
  #files: Map<number, FileMemory> | undefined;

  /** The list owns `inputs`, and drops each input after its result. */
  constructor(
    inputs: InputList,
    receiver: OutputReceiver,
    { deadlineMs = Infinity, sender, predictionId, span }: ItemListOptions = {},
  ) {
    lastNumber = (lastNumber + 1) % NUMBERS;
    this.number = lastNumber;
    this.predictionId = predictionId;
    this.deadlineMs = deadlineMs;
    this.sender = sender;
    this.span = span;
    this.count = inputs.length;
    this.#left = inputs.length;
    this.#inputs = inputs;
    this.receiver = receiver;
  }

  get isOver(): boolean {
    return this.#inputs === undefined;
  }

  /** Whether every input has a result. */
  get isComplete(): boolean {
    return this.#left === 0;
  }

  /** Fires when the prediction ends. Created on demand. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  input(index: number): unknown {
    return this.#inputs?.get(index);
  }

  /** Keeps the memory charges of an input's fetched files until its result. */
  hold(index: number, files: FileMemory): void {
    this.#files ??= new Map();
    if (this.isOver) files[Symbol.dispose]();
    else this.#files.set(index, files);
  }

  /** Bytes of the fetched files of an input. */
  fetchedBytes(index: number): number {
    return this.#files?.get(index)?.bytes ?? 0;
  }

  /** Bytes of fetched files, tensors and rows in the memory account. */
  get heldBytes(): number {
    let bytes = this.rowBytes;
    for (const item of this.items) bytes += HELD_PER_TENSOR_BYTE * item.bytes;
    for (const files of this.#files?.values() ?? []) bytes += files.bytes;
    return bytes;
  }

  /** Whether the receiver wraps calls of the model's code. */
  get isScoped(): boolean {
    return this.receiver.scope !== undefined;
  }

  /** Runs the model's code for an input, inside the receiver's wrapper if there is one. */
  scope<T>(task: () => T): T {
    return this.receiver.scope === undefined ? task() : this.receiver.scope(task);
  }

  processing(): void {
    this.receiver.processing?.();
  }

  dispatched(): void {
    if (!this.isOver) this.receiver.dispatched?.();
  }

  part(index: number, text: Encoded): void {
    if (!this.isOver) this.receiver.parts?.add(index, text);
  }

  /** Notes that the engine runs an input again. The receiver forgets the parts of the first run. */
  restarted(index: number): void {
    if (!this.isOver) this.receiver.parts?.restart(index);
  }

  succeeded(index: number, output: unknown, nowMs?: number): void {
    if (this.isOver) return;
    this.#left -= 1;
    try {
      this.receiver.succeeded(index, output, nowMs);
    } catch (error) {
      this.receiver.failed(index, codedError(error));
    }
    this.#drop(index);
  }

  failed(index: number, error: SconceError): void {
    if (this.isOver) return;
    this.#left -= 1;
    this.receiver.failed(index, error);
    this.#drop(index);
  }

  expire(): void {
    if (!this.isOver) this.receiver.expired?.();
  }

  /** Ends the prediction, and frees its inputs. The receiver gets no more calls. */
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

/** State of the output parts of an item. `postprocessPart` makes a part of each set of rows that the model yields. */
export interface ItemParts {
  /** Count of parts so far. */
  sequence: number;
  /** Resolves when all rows so far have become parts. */
  last: Promise<void>;
  /** Error of `postprocessPart`, with which the item fails when the model has run; undefined without an error. */
  error: SconceError | undefined;
}

/** An input of a prediction on its way: what its hooks get to know, and an item in the engine. */
export class ListItem implements Item, InputCall, InRing<ListItem> {
  ring: Ring<ListItem> | undefined = undefined;
  before: ListItem | undefined = undefined;
  after: ListItem | undefined = undefined;
  readonly list: ItemList;
  readonly index: number;
  number = 0;
  /** Count of items of the same prediction in the engine's queue when this item entered it. */
  ahead = 0;
  /** Bytes that the item holds in the queue, without files that were fetched for it. */
  bytes = 0;
  /** Whether the item waits for its first batch. */
  isWaiting = true;
  /** Whether the item shares a batch only with other items of suspect clients. */
  isSeparate = false;
  /** When its present stage began, in `performance.now()` milliseconds. */
  beganMs: number;
  dispatchedAtMs = 0;
  /** Count of items in its batch; 0 before the first. */
  batchSize = 0;
  /** Its part of the time of its failed batches. */
  failedMs = 0;
  /** Parts of the item's current run; undefined before the model yields the first rows. */
  parts: ItemParts | undefined = undefined;
  context: PartContext | undefined = undefined;

  constructor(list: ItemList, index: number, beganMs: number) {
    this.list = list;
    this.index = index;
    this.beganMs = beganMs;
  }

  get lane(): number {
    return this.list.number;
  }

  get input(): unknown {
    return this.list.input(this.index);
  }

  get predictionId(): string | undefined {
    return this.list.predictionId;
  }

  get isOver(): boolean {
    return this.list.isOver;
  }

  get textForm(): TextForm | undefined {
    return this.list.receiver.textForm;
  }

  get signal(): AbortSignal {
    return this.list.signal;
  }

  get fileSignal(): AbortSignal | undefined {
    return this.list.receiver.fileSignal;
  }

  get log(): InputCall["log"] {
    const { receiver } = this.list;
    return receiver.log && ((text) => receiver.log?.(this.index, text));
  }

  part(text: Encoded): void {
    this.list.part(this.index, text);
  }

  /** Notes that its tensors are ready for a batch. */
  ready(bytes: number, nowMs: number): void {
    this.bytes = bytes;
    this.isSeparate = this.list.client?.isSuspect ?? false;
    this.beganMs = nowMs;
  }

  /** Notes that a batch with the item starts. A batch before has failed. */
  dispatched(batchSize: number, nowMs: number): void {
    this.failedMs = this.costMs(nowMs);
    this.dispatchedAtMs = nowMs;
    this.batchSize = batchSize;
  }

  /** Milliseconds of the device that the item has cost: its part of the time of each of its batches. */
  costMs(nowMs: number): number {
    return this.batchSize === 0 ? 0 : this.failedMs + (nowMs - this.dispatchedAtMs) / this.batchSize;
  }
}
