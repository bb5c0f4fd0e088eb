/**
 * A front's end of the engine. Sends items as frames to the engine process, receives their outputs, and sends
 * unfinished items again after a restart of the process.
 */
import type { Tensor, TensorSpecs } from "../../author/tensor.ts";
import { memoryOver, type TensorMemory } from "../../author/tensor-memory.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { SharedMemory } from "../../machine/processes/shared-memory.ts";
import type { BatchObserver, EngineListener, Item } from "../engine.ts";
import { type CheckedItem, itemCheck } from "../item-check.ts";
import { type RowParting, rowParting } from "../rows.ts";
import {
  type EngineInfo,
  engineInfoSchema,
  type Frame,
  FrameBlocks,
  type FrameMemory,
  FrameReader,
  failureSchema,
  frameKinds,
  IS_ALONE,
  jsonAt,
  KIND_MASK,
  Outbox,
  type Wire,
  type WireEnd,
} from "./frame.ts";
import { PendingItems } from "./pending-items.ts";
import { RunningItems } from "./running-items.ts";
import { ItemFrames, numbersWord, observationAt, RowsFrames, runMsAt } from "./tensor-frames.ts";

export interface RemoteEngineOptions {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** Declared tensors of partial outputs. Default: `outputs`. */
  readonly parts?: TensorSpecs;
  readonly observer?: BatchObserver | undefined;
  /** Called when an item is submitted while no engine process is ready. */
  readonly onNeeded?: (() => void) | undefined;
}

/** Larger tensors go through shared memory. */
const MIN_SHARED_BYTES = 2 ** 10;

interface Connection {
  wire: Wire | undefined;
  outbox: Outbox | undefined;
  /** Whether the process has sent `hello`; no frame goes to it before. */
  isReady: boolean;
  /** Whether the process has opened the shared memory. */
  isShared: boolean;
  /** Rejects if the connection ends before `hello`. */
  readonly ready: PromiseWithResolvers<EngineInfo>;
}

/**
 * Accepts items at any time. Without an engine process, they wait for the next one. If a process ends during a batch,
 * the next process runs each item of this batch alone. An item that ran alone when its process ended fails.
 */
export class RemoteEngine<T extends Item> {
  /** Receives the results. Set it once, before the first item. */
  listener: EngineListener<T> | undefined;
  readonly #options: RemoteEngineOptions;
  readonly #check: (given: Readonly<Record<string, Tensor>>) => CheckedItem;
  readonly #rowsOf: RowParting;
  readonly #itemFrames: ItemFrames;
  readonly #rowsFrames: RowsFrames;
  readonly #partRowsOf: RowParting;
  readonly #partFrames: RowsFrames;
  readonly #blocks = new FrameBlocks();
  readonly #pending = new PendingItems<T>((range) => this.#shared?.release(range));
  /** Memory for large tensors, and its typed arrays. The first connection creates it. */
  #shared: SharedMemory | undefined;
  #sharedMemory: TensorMemory | undefined;
  #running: RunningItems | undefined;
  #connection: Connection | undefined;
  /** Properties of the newest engine process, which may have ended. */
  #info: EngineInfo | undefined;
  #isClosed = false;
  /** The ended connection, until `engineEnded` tells why the process ended. */
  #lost: Connection | undefined;
  #reason: string | undefined;

  constructor(options: RemoteEngineOptions) {
    this.#options = options;
    this.#check = itemCheck(options.inputs);
    this.#rowsOf = rowParting(options.outputs);
    this.#itemFrames = new ItemFrames(options.inputs);
    this.#rowsFrames = new RowsFrames(options.outputs);
    const { parts = options.outputs } = options;
    this.#partRowsOf = rowParting(parts);
    this.#partFrames = new RowsFrames(parts, frameKinds.part);
  }

  /** Properties of the newest engine process; undefined before the first one. */
  get info(): EngineInfo | undefined {
    return this.#info;
  }

  /** Maximum items in a batch. Warm-up halves the requested size until a batch fits into the device's memory. */
  get maxBatchSize(): number {
    return this.#info?.maxBatchSize ?? 1;
  }

  get instances(): number {
    return this.#info?.instances ?? 1;
  }

  /** Whether items can run now; false without an engine process, and while it starts. */
  get isReady(): boolean {
    return this.#connection?.isReady ?? false;
  }

  /**
   * Connects to an engine process, and sends it all pending items.
   * @param path Unix socket
   * @throws SconceError `session_closed` after `close`; `not_ready` while a connection exists, before `engineEnded` for
   * the last one, or if the process ends before it is ready; or an error of the socket
   */
  async connect(path: string): Promise<EngineInfo> {
    const connection = this.#begin();
    const end = this.#endOf(connection);
    try {
      await Bun.connect({
        unix: path,
        socket: {
          open: (socket) => this.#open(connection, socket),
          data: (_, chunk) => end.data(chunk),
          drain: () => end.drain(),
          close: () => end.close(),
        },
      });
    } catch (error) {
      this.#connection = undefined;
      this.#reason = undefined;
      throw error;
    }
    return connection.ready.promise;
  }

  /** Connects to an engine of this process. @returns the end that receives the engine's frames */
  attach(wire: Wire): WireEnd {
    const connection = this.#begin();
    this.#open(connection, wire);
    return this.#endOf(connection);
  }

  #begin(): Connection {
    if (this.#isClosed) throw closed();
    if (this.#connection !== undefined || this.#lost !== undefined) {
      throw new SconceError("not_ready", "the engine process before this one has not ended");
    }
    this.#connection = {
      wire: undefined,
      outbox: undefined,
      isReady: false,
      isShared: false,
      ready: Promise.withResolvers(),
    };
    return this.#connection;
  }

  #open(connection: Connection, wire: Wire): void {
    if (this.#isClosed) wire.end();
    connection.wire = wire;
    connection.outbox = new Outbox(wire);
  }

  #endOf(connection: Connection): WireEnd {
    const reader = new FrameReader((memory, at) => this.#handle(connection, memory, at));
    return {
      data: (chunk) => reader.push(chunk),
      drain: () => connection.outbox?.drained(),
      close: () => this.#ended(connection),
    };
  }

  /**
   * Reports why the process ended. After this call and the end of the connection, a next process can be connected.
   *
   * @param reason begins the error message of an item that ran alone: "the engine was ended by SIGSEGV"
   */
  engineEnded(reason: string): void {
    if (this.#connection === undefined && this.#lost === undefined) return;
    this.#reason = reason;
    this.#handleLoss();
  }

  /**
   * Queues an item for a batch, and copies its tensors before the call returns.
   * @throws SconceError `tensor_invalid` when the tensors are not the declared ones
   */
  submit(item: T, given: Readonly<Record<string, Tensor>>): void {
    if (this.#isClosed) throw closed();
    const { tensors, padded } = this.#check(given);
    const bytes = this.#itemFrames.bytesOf(tensors);
    const range = bytes > MIN_SHARED_BYTES && this.#connection?.isShared ? this.#shared?.take(bytes) : undefined;
    const number = this.#pending.nextNumber();
    item.number = number;
    const frame = this.#itemFrames.write(this.#blocks, item, tensors, range && this.#sharedMemory, range?.at);
    this.#pending.add({ item, number, padded, frame, range, state: "waiting", losses: 0 });
    if (this.isReady) this.#send(frame);
    else this.#options.onNeeded?.();
  }

  /**
   * Removes items from the queue. Running items continue with their batch; of a model with `step` they leave before the
   * next step.
   */
  cancel(items: Iterable<T>): void {
    const numbers = this.#pending.cancel(items);
    if (!this.isReady) this.#pending.disconnected();
    else if (numbers.length > 0) this.#send(this.#blocks.numbers(frameKinds.cancel, numbers));
  }

  /** Whether items wait for a result, so that the engine process is needed. */
  get isNeeded(): boolean {
    return this.#pending.size > 0;
  }

  /**
   * Disconnects from the process, which may then end. Later items wait for the next process.
   * @returns false, without effect, while items wait for a result or the process is not ready
   */
  release(): boolean {
    if (this.isNeeded) return false;
    const connection = this.#connection;
    if (connection === undefined) return true;
    if (!connection.isReady) return false;
    this.#connection = undefined;
    connection.isReady = false;
    connection.wire?.end();
    this.#pending.disconnected();
    return true;
  }

  /**
   * Closes the connection; unfinished items fail with `session_closed`. The supervisor, not this class, ends the
   * process.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const unfinished = this.#pending.all();
    for (const { number } of unfinished) this.#pending.ended(number);
    this.#shared?.[Symbol.dispose]();
    if (this.#connection !== undefined) this.#connection.isReady = false;
    this.#connection?.wire?.end();
    for (const { item } of unfinished) this.listener?.failed(item, closed());
  }

  /** Tells a new engine process where the shared memory is. Without it, all tensors go through the socket. */
  #share(): void {
    try {
      this.#shared ??= new SharedMemory(RunningItems.BYTES);
      this.#sharedMemory ??= memoryOver(this.#shared.buffer);
      this.#running ??= new RunningItems(this.#shared.buffer);
      this.#running.clear();
      this.#send(this.#blocks.words(frameKinds.share, [process.pid, this.#shared.descriptor]));
    } catch (error) {
      log.debug(`Large tensors go through the engine's socket: ${messageOf(error)}`);
    }
  }

  #send(frame: Frame): void {
    const outbox = this.#connection?.outbox;
    outbox?.add(frame);
    outbox?.flushSoon();
  }

  #handle(connection: Connection, memory: FrameMemory, at: number): void {
    if (this.#isClosed) return;
    const kind = memory.words[at / 4 + 1] ?? 0;
    switch (kind & KIND_MASK) {
      case frameKinds.dispatched:
        this.#dispatched(memory, at, (kind & IS_ALONE) !== 0);
        break;
      case frameKinds.finished:
        this.#finished(memory, at);
        break;
      case frameKinds.part:
        this.#part(memory, at);
        break;
      case frameKinds.failed: {
        const { number, code, message, stack, ...details } = failureSchema.parse(jsonAt(memory, at));
        const cause = stack ? Object.assign(new Error(message), { stack }) : undefined;
        const pending = this.#pending.ended(number);
        if (pending !== undefined)
          this.listener?.failed(pending.item, new SconceError(code, message, { ...details, cause }));
        break;
      }
      case frameKinds.shared:
        connection.isShared = true;
        break;
      case frameKinds.hello:
        this.#hello(connection, engineInfoSchema.parse(jsonAt(memory, at)));
        break;
    }
  }

  #hello(connection: Connection, info: EngineInfo): void {
    this.#info = info;
    connection.isReady = true;
    this.#share();
    for (const { frame } of this.#pending.all()) this.#send(frame);
    this.listener?.started?.();
    connection.ready.resolve(info);
  }

  #dispatched({ words }: FrameMemory, at: number, isAlone: boolean): void {
    const items: T[] = [];
    const [count = 0, agoUs = 0] = [words[at / 4 + 2], words[at / 4 + 3]];
    for (let i = 0; i < count; i++) {
      const pending = this.#pending.get(words[at / 4 + 4 + i] ?? 0);
      if (pending === undefined) continue;
      pending.state = isAlone ? "alone" : "dispatched";
      items.push(pending.item);
    }
    if (items.length > 0) this.listener?.dispatched(items, agoUs / 1000);
  }

  /** Reports the start of a batch that ended before it was announced. */
  #unannounced(memory: FrameMemory, at: number): void {
    const items: T[] = [];
    const first = numbersWord(at);
    const count = memory.words[at / 4 + 2] ?? 0;
    for (let i = 0; i < count; i++) {
      const pending = this.#pending.get(memory.words[first + i] ?? 0);
      if (pending?.state === "waiting") items.push(pending.item);
    }
    if (items.length > 0) this.listener?.dispatched(items, runMsAt(memory, at));
  }

  #finished(memory: FrameMemory, at: number): void {
    const observation = observationAt(memory, at);
    if (observation !== undefined) this.#options.observer?.ran(observation);
    const outputs = this.#rowsFrames.outputsAt(memory, at);
    const { words } = memory;
    const count = words[at / 4 + 2] ?? 0;
    const first = numbersWord(at);
    this.#unannounced(memory, at);
    for (let i = 0; i < count; i++) {
      const pending = this.#pending.ended(words[first + i] ?? 0);
      if (pending === undefined) continue;
      this.listener?.finished(pending.item, this.#rowsOf(outputs, i, pending.padded));
    }
  }

  #part(memory: FrameMemory, at: number): void {
    const outputs = this.#partFrames.outputsAt(memory, at);
    const count = memory.words[at / 4 + 2] ?? 0;
    for (let i = 0; i < count; i++) {
      const pending = this.#pending.get(memory.words[numbersWord(at) + i] ?? 0);
      if (pending !== undefined) this.listener?.part?.(pending.item, this.#partRowsOf(outputs, i, pending.padded));
    }
  }

  #ended(connection: Connection): void {
    connection.outbox?.drop();
    // `release` has already disconnected this process, and no item waited for it.
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#pending.disconnected();
    connection.ready.reject(new SconceError("not_ready", "the engine process ended before it was ready"));
    // Avoids an unhandled rejection: the caller of `connect` may not await the promise.
    connection.ready.promise.catch(() => {});
    this.#lost = connection;
    this.#handleLoss();
  }

  #handleLoss(): void {
    const [lost, reason] = [this.#lost, this.#reason];
    if (lost === undefined || reason === undefined) return;
    this.#lost = undefined;
    this.#reason = undefined;
    if (!lost.isReady) return;
    for (const { item } of this.#pending.lost(this.#running)) {
      this.listener?.failed(item, new SconceError("engine_ended", `${reason} while it ran this input alone`));
    }
  }
}

function closed(): SconceError {
  return new SconceError("session_closed", "the engine was closed");
}
