/**
 * The server in the engine process. Fronts send it items through a Unix socket, and get the outputs.
 * Batches mix items of all fronts.
 */
import type { UnixSocketListener } from "bun";
import type { Tensor, TensorSpecs } from "../../author/tensor.ts";
import { authorStack } from "../../base/author-line.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { codedError, messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { losesDevice } from "../../machine/libtorch/device-loss.ts";
import { exitProcess } from "../../machine/processes/exit.ts";
import { openShared } from "../../machine/processes/shared-memory.ts";
import { openBatching } from "../batching/batcher.ts";
import type { BatchItem, Batching, BatchingOptions } from "../batching/batching.ts";
import type { BatchRun } from "../engine.ts";
import { separateKey } from "../item-check.ts";
import {
  AHEAD_SHIFT,
  type EngineInfo,
  type Frame,
  FrameBlocks,
  type FrameMemory,
  FrameReader,
  frameKinds,
  IS_ALONE,
  IS_SEPARATE,
  KIND_MASK,
  Outbox,
  type Wire,
  type WireEnd,
} from "./frame.ts";
import { RunningItems } from "./running-items.ts";
import { ItemFrames, RowsFrames } from "./tensor-frames.ts";

/** Maximum milliseconds until a running batch is announced. */
const ANNOUNCED_AFTER_MS = 10;

export interface EngineServerOptions extends BatchingOptions {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** Declared tensors of partial outputs. Default: `outputs`. */
  readonly parts?: TensorSpecs;
  /** Properties of the engine that each front gets, besides batch size and instances. */
  readonly info: Omit<EngineInfo, "maxBatchSize" | "instances">;
  /** Whether the process ends after an error after which its GPU refuses further work. Default: true. */
  readonly endsProcess?: boolean;
  /** Called when a lack of device memory limits the batches of a shape for a time. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
}

interface RemoteItem extends BatchItem {
  readonly front: Front;
  readonly number: number;
  isCanceled: boolean;
}

interface Batch {
  readonly items: readonly RemoteItem[];
  readonly beganMs: number;
}

interface Front {
  readonly outbox: Outbox;
  /** Items without a result, by their number. */
  readonly items: OpenMap<number, RemoteItem>;
  /** Memory shared with the front for large tensors; undefined without it. */
  shared: ArrayBuffer | undefined;
  /** Flags of the running items, in the shared memory; undefined without it. */
  running: RunningItems | undefined;
  isClosed: boolean;
}

export class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #clock: Clock;
  readonly #batching: Batching<RemoteItem>;
  readonly #fronts = new Set<Front>();
  readonly #blocks = new FrameBlocks();
  readonly #itemFrames: ItemFrames;
  readonly #rowsFrames: RowsFrames;
  readonly #partFrames: RowsFrames;
  #listener: UnixSocketListener<WireEnd> | undefined;
  /** Size and times of the last batch, until they are sent to a front. */
  #observation: BatchRun | undefined;
  /** Running batches that are not announced yet. */
  readonly #unannounced: Batch[] = [];
  #willAnnounce = false;

  constructor(options: EngineServerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#itemFrames = new ItemFrames(options.inputs);
    this.#rowsFrames = new RowsFrames(options.outputs);
    this.#partFrames = new RowsFrames(options.parts ?? options.outputs, frameKinds.part);
    this.#batching = openBatching<RemoteItem>(options, {
      dispatched: (items, isBrief) => this.#dispatched(items, isBrief),
      part: (items, rows) => this.#part(items, rows),
      finished: (items, outputs) => this.#finished(items, outputs),
      failed: (item, error) => this.#failed(item, error),
      ran: (observation) => {
        this.#observed();
        this.#observation = observation;
      },
      shrunk: (maxBatchSize) => options.onShrink?.(maxBatchSize),
      isNeeded: ({ front, isCanceled }) => !isCanceled && !front.isClosed,
      // The next item may crash the process, so all results are sent first.
      isHeard: () => {
        for (const { outbox } of this.#fronts) outbox.flush();
        return [...this.#fronts].every(({ outbox }) => outbox.isEmpty);
      },
    });
  }

  /** Accepts connections of fronts. Call this after warm-up. */
  listen(path: string): void {
    this.#listener = Bun.listen<WireEnd>({
      unix: path,
      socket: {
        open: (socket) => {
          socket.data = this.accept(socket);
        },
        data: ({ data: end }, chunk) => end.data(chunk),
        drain: ({ data: end }) => end.drain(),
        close: ({ data: end }) => end.close(),
      },
    });
  }

  /** Longest time in milliseconds since a running batch began or last yielded partial outputs; 0 if no batch runs. */
  get runningForMs(): number {
    return this.#batching.runningForMs;
  }

  /** Closes the runners. Unfinished items fail with `session_closed`. */
  async close(): Promise<void> {
    this.#listener?.stop(true);
    await Promise.all(this.#options.runners.map((runner) => runner.dispose()));
  }

  /** Adds a front, and tells it the properties of the engine. @returns the end that receives the front's frames */
  accept(wire: Wire): WireEnd {
    const front: Front = {
      outbox: new Outbox(wire),
      items: new OpenMap(spread),
      shared: undefined,
      running: undefined,
      isClosed: false,
    };
    this.#fronts.add(front);
    const { info, maxBatchSize, runners } = this.#options;
    const hello: EngineInfo = { ...info, maxBatchSize, instances: runners.length };
    front.outbox.add(this.#blocks.json(frameKinds.hello, hello));
    front.outbox.flush();
    const reader = new FrameReader((memory, at) => this.#handle(front, memory, at));
    return {
      data: (chunk) => reader.push(chunk),
      drain: () => {
        front.outbox.drained();
        this.#batching.pump();
      },
      close: () => this.#disconnected(front),
    };
  }

  /** Removes the waiting items of a front, and drops the results of its running items. */
  #disconnected(front: Front): void {
    this.#fronts.delete(front);
    front.isClosed = true;
    front.outbox.drop();
    this.#batching.removeUnneeded();
    this.#batching.pump();
  }

  #handle(front: Front, memory: FrameMemory, at: number): void {
    const { words } = memory;
    const [kind = 0, number = 0] = [words[at / 4 + 1], words[at / 4 + 2]];
    switch (kind & KIND_MASK) {
      case frameKinds.submit:
        this.#submit(front, memory, at);
        break;
      case frameKinds.cancel:
        this.#cancel(front, words.subarray(at / 4 + 3, at / 4 + 3 + number));
        break;
      case frameKinds.share:
        this.#share(front, number, words[at / 4 + 3] ?? 0);
        break;
    }
  }

  #submit(front: Front, memory: FrameMemory, at: number): void {
    const { words } = memory;
    const [kind = 0, number = 0, lane = 0] = [words[at / 4 + 1], words[at / 4 + 2], words[at / 4 + 3]];
    try {
      const { tensors, key, padded } = this.#itemFrames.read(memory, at, front.shared);
      const item: RemoteItem = {
        tensors,
        key: (kind & IS_SEPARATE) === 0 ? key : separateKey(key),
        padded,
        front,
        number,
        lane,
        ahead: kind >>> AHEAD_SHIFT,
        isAlone: (kind & IS_ALONE) !== 0,
        isCanceled: false,
        readyAtMs: this.#clock.now(),
      };
      front.items.set(number, item);
      this.#batching.submit(item);
    } catch (error) {
      this.#failed({ front, number }, codedError(error));
    }
  }

  #share(front: Front, pid: number, descriptor: number): void {
    try {
      front.shared = openShared(pid, descriptor);
      front.running = new RunningItems(front.shared);
      send(front, this.#blocks.words(frameKinds.shared, []));
    } catch (error) {
      log.debug(`Large tensors go through the front's socket: ${messageOf(error)}`);
    }
  }

  /** Cancels items. Waiting items fail with `canceled`; running items end as usual. */
  #cancel(front: Front, numbers: Uint32Array): void {
    for (const number of numbers) {
      const item = front.items.get(number);
      if (item !== undefined) item.isCanceled = true;
    }
    for (const item of this.#batching.removeUnneeded()) this.#failed(item, canceled);
  }

  /**
   * Flags the items as running, because the batch may crash this process. Announces the batch at once, unless it may be
   * brief: the result of a brief batch tells a front its start, so that the front wakes once.
   */
  #dispatched(items: readonly RemoteItem[], isBrief: boolean): void {
    for (const { front, number } of items) front.running?.add(number);
    this.#unannounced.push({ items, beganMs: this.#clock.now() });
    if (!isBrief || items.some(({ front }) => front.running === undefined)) this.#announce();
    else if (!this.#willAnnounce) {
      this.#willAnnounce = true;
      this.#clock.after(ANNOUNCED_AFTER_MS, () => {
        this.#willAnnounce = false;
        this.#announce();
      });
    }
  }

  /** Tells the fronts about all running batches that are not announced yet. */
  #announce(): void {
    for (const { items, beganMs } of this.#unannounced.splice(0)) {
      const isAlone = items.length === 1 && items[0]?.isAlone === true;
      const kind = isAlone ? frameKinds.dispatched | IS_ALONE : frameKinds.dispatched;
      const agoUs = Math.round(1000 * (this.#clock.now() - beganMs));
      for (const [front, places] of byFront(items)) {
        const numbers = numbersOf(items, places);
        front.outbox.add(this.#blocks.words(kind, [numbers.length, agoUs, ...numbers]));
        front.outbox.flush();
      }
    }
  }

  #finished(items: readonly RemoteItem[], outputs: readonly Tensor[]): void {
    for (const { front, number } of items) ended(front, number);
    const unannounced = this.#unannounced.findIndex((batch) => batch.items === items);
    if (unannounced !== -1) this.#unannounced.splice(unannounced, 1);
    const runMs = this.#observation?.runMs ?? 0;
    for (const [front, places] of byFront(items)) {
      const numbers = numbersOf(items, places);
      const observation = items[0]?.front === front ? this.#observation : undefined;
      if (observation !== undefined) this.#observation = undefined;
      this.#rowsFrames.add(front.outbox, this.#blocks, { numbers, places, outputs, observation, runMs });
      front.outbox.flush();
    }
  }

  /** Sends a front the times of a step in which no item ended, for metrics. */
  #observed(): void {
    const observation = this.#observation;
    const [front] = this.#fronts;
    if (observation === undefined || front === undefined) return;
    this.#rowsFrames.add(front.outbox, this.#blocks, { numbers: [], places: [], outputs: [], observation });
    front.outbox.flushSoon();
  }

  #part(items: readonly RemoteItem[], outputs: readonly Tensor[]): void {
    this.#announce();
    for (const [front, places] of byFront(items)) {
      const numbers = numbersOf(items, places);
      this.#partFrames.add(front.outbox, this.#blocks, { numbers, places, outputs, observation: undefined });
      front.outbox.flush();
    }
  }

  #failed({ front, number }: Pick<RemoteItem, "front" | "number">, error: SconceError): void {
    if (this.#options.endsProcess !== false && losesDevice(error)) this.#endProcess(error);
    this.#announce();
    ended(front, number);
    if (front.isClosed) return;
    const { code, message, clientMessage, field } = error;
    const failure = { number, code, message, clientMessage, field, stack: authorStack(error) };
    send(front, this.#blocks.json(frameKinds.failed, failure));
  }

  /**
   * Ends this process, so that another one starts. The fronts send it the items of the failed batch, which then
   * run one by one. Only the item that caused the error fails.
   */
  #endProcess({ message }: SconceError): never {
    log.error(`The GPU refuses further work of this process, which ends now: ${message}`);
    for (const { outbox } of this.#fronts) outbox.flush();
    exitProcess(1);
  }
}

function ended({ items, running }: Front, number: number): void {
  items.delete(number);
  running?.delete(number);
}

const canceled = new SconceError("canceled", "the prediction ended before the batch");

function send({ outbox }: Front, frame: Frame): void {
  outbox.add(frame);
  outbox.flushSoon();
}

/** Numbers of the items at the indexes `places`. Undefined `places` means all items. */
function numbersOf(items: readonly RemoteItem[], places?: readonly number[]): number[] {
  return places?.map((place) => items[place]?.number ?? 0) ?? items.map(({ number }) => number);
}

/** For each connected front with items in the batch: the indexes of its items. Undefined means all items. */
function byFront(items: readonly RemoteItem[]): Iterable<readonly [Front, readonly number[] | undefined]> {
  const first = items[0]?.front;
  if (first === undefined) return [];
  if (items.every(({ front }) => front === first)) return first.isClosed ? [] : [[first, undefined]];
  const places = new Map<Front, number[]>();
  for (const [i, { front }] of items.entries()) {
    if (front.isClosed) continue;
    const known = places.get(front);
    if (known === undefined) places.set(front, [i]);
    else known.push(i);
  }
  return places;
}
