/** The engine process's side: fronts connect, their items share batches, and each front is given the rows of its own. */
import type { Socket, UnixSocketListener } from "bun";
import type { Tensor, TensorSpecs } from "../../author/tensor.ts";
import { authorLine } from "../../base/author-line.ts";
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { messageOf, type SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { BatchEngine, type BatchEngineOptions, type BatchItem } from "../batch-engine.ts";
import type { BatchRun } from "../engine.ts";
import { type EngineInfo, type FrameMemory, frameKinds, IS_ALONE, IS_LATE, KIND_MASK } from "./frame.ts";
import { FrameBlocks, jsonFrame, type Made, wordsFrame } from "./frame-blocks.ts";
import { FrameReader } from "./frame-reader.ts";
import { ItemFrames } from "./item-frame.ts";
import { Outbox } from "./outbox.ts";
import { RowsFrames } from "./rows-frame.ts";
import { openShared } from "./shared-tensors.ts";

export interface EngineServerOptions extends Omit<BatchEngineOptions<RemoteItem>, "listener" | "observer"> {
  /** As the model declares them. */
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** What fronts are told beside the size of batches and the number of runners. */
  readonly info: Omit<EngineInfo, "maxBatchSize" | "instances">;
}

interface RemoteItem extends BatchItem {
  readonly lane: Lane;
  readonly number: number;
  /** It is to be run with no other item beside it. */
  readonly isAlone: boolean;
}

/** A lane of one front. */
interface Lane {
  readonly front: Front;
  readonly number: number;
  /** Items that have not ended. */
  count: number;
  isCanceled: boolean;
}

interface Front {
  readonly outbox: Outbox;
  readonly reader: FrameReader;
  readonly lanes: OpenMap<number, Lane>;
  /** Where its large tensors lie. */
  shared: ArrayBuffer | undefined;
  isHurried: boolean;
  isGone: boolean;
}

export class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #engine: BatchEngine<RemoteItem>;
  readonly #fronts = new Map<Socket, Front>();
  readonly #blocks = new FrameBlocks();
  readonly #itemFrames: ItemFrames;
  readonly #rowsFrames: RowsFrames;
  #listener: UnixSocketListener<undefined> | undefined;
  /** Of the batch whose items are told next. */
  #observation: BatchRun | undefined;

  constructor(options: EngineServerOptions) {
    this.#options = options;
    this.#itemFrames = new ItemFrames(options.inputs);
    this.#rowsFrames = new RowsFrames(options.outputs);
    this.#engine = new BatchEngine<RemoteItem>({
      ...options,
      listener: {
        dispatched: (items) => this.#dispatched(items),
        finished: (items, outputs) => this.#finished(items, outputs),
        failed: (item, error) => this.#failed(item, error),
      },
      observer: {
        ran: (observation) => {
          this.#observation = observation;
        },
      },
      // Rows that never left would be taken for those of an item that ended the process.
      isHeard: () => {
        for (const { outbox } of this.#fronts.values()) outbox.flush();
        return [...this.#fronts.values()].every(({ outbox }) => outbox.isEmpty);
      },
    });
  }

  /** Takes fronts from now on; the runners are to be warm. */
  listen(path: string): void {
    this.#listener = Bun.listen({
      unix: path,
      socket: {
        open: (socket) => this.#came(socket),
        data: (socket, chunk) => this.#fronts.get(socket)?.reader.push(chunk),
        drain: (socket) => {
          this.#fronts.get(socket)?.outbox.drained();
          this.#engine.pump();
        },
        close: (socket) => this.#left(socket),
      },
    });
  }

  /** For how long the oldest batch has been running, in milliseconds; 0 when none is. */
  get runningForMs(): number {
    return this.#engine.runningForMs;
  }

  /** Closes the connections and the runners. */
  async close(): Promise<void> {
    this.#listener?.stop(true);
    await this.#engine.close();
  }

  #came(socket: Socket): void {
    const front: Front = {
      outbox: new Outbox(socket, this.#blocks),
      reader: new FrameReader((memory, at) => this.#handle(front, memory, at)),
      lanes: new OpenMap(spread),
      shared: undefined,
      isHurried: false,
      isGone: false,
    };
    this.#fronts.set(socket, front);
    const { maxBatchSize, instances } = this.#engine;
    const hello: EngineInfo = { ...this.#options.info, maxBatchSize, instances };
    const { block, from } = jsonFrame(this.#blocks, frameKinds.hello, hello);
    front.outbox.add(block, from, block.end);
    front.outbox.flush();
  }

  /** Its items that wait leave the queue; what runs for it is thrown away. */
  #left(socket: Socket): void {
    const front = this.#fronts.get(socket);
    if (front === undefined) return;
    this.#fronts.delete(socket);
    front.isGone = true;
    front.outbox.drop();
    for (const lane of front.lanes) this.#engine.cancel(lane);
    this.#hurryIfAll();
    this.#engine.pump();
  }

  #handle(front: Front, memory: FrameMemory, at: number): void {
    const { words } = memory;
    const [kind = 0, number = 0] = [words[at / 4 + 1], words[at / 4 + 2]];
    switch (kind & KIND_MASK) {
      case frameKinds.submit:
        this.#submit(front, memory, at);
        break;
      case frameKinds.cancel:
        this.#cancel(front, number);
        break;
      case frameKinds.share:
        this.#share(front, number, words[at / 4 + 3] ?? 0);
        break;
      case frameKinds.hurry:
        front.isHurried = true;
        this.#hurryIfAll();
        break;
    }
  }

  #submit(front: Front, memory: FrameMemory, at: number): void {
    const { words } = memory;
    const { tensors, key, padded, length } = this.#itemFrames.read(memory, at, front.shared);
    const kind = words[at / 4 + 1] ?? 0;
    const laneNumber = words[at / 4 + 3] ?? 0;
    let lane = front.lanes.get(laneNumber);
    if (lane === undefined) {
      lane = { front, number: laneNumber, count: 0, isCanceled: false };
      front.lanes.set(laneNumber, lane);
    }
    lane.count += 1;
    this.#engine.submit({
      tensors,
      key,
      padded,
      length,
      lane,
      number: words[at / 4 + 2] ?? 0,
      isAlone: (kind & IS_ALONE) !== 0,
      isLate: (kind & IS_LATE) !== 0,
      readyAtMs: this.#engine.now(),
      dispatchedAtMs: 0,
    });
  }

  #share(front: Front, pid: number, descriptor: number): void {
    try {
      front.shared = openShared(pid, descriptor);
      tell(front, wordsFrame(this.#blocks, frameKinds.shared, []));
    } catch (error) {
      log.debug(`Large tensors go through the front's socket: ${messageOf(error)}`);
    }
  }

  #cancel(front: Front, number: number): void {
    const lane = front.lanes.get(number);
    if (lane === undefined) {
      this.#tellCanceled(front, number);
      return;
    }
    front.lanes.delete(number);
    lane.count -= this.#engine.cancel(lane).length;
    lane.isCanceled = true;
    if (lane.count === 0) this.#tellCanceled(front, number);
  }

  #tellCanceled(front: Front, number: number): void {
    tell(front, wordsFrame(this.#blocks, frameKinds.canceled, [number]));
  }

  /** Others may still come to one batch with those of a front that gives no more. */
  #hurryIfAll(): void {
    if (this.#fronts.size > 0 && [...this.#fronts.values()].every(({ isHurried }) => isHurried)) this.#engine.hurry();
  }

  /** Written at once: when the batch ends this process, its fronts have to know which items it was. */
  #dispatched(items: readonly RemoteItem[]): void {
    const isAlone = items.length === 1 && items[0]?.isAlone === true;
    const kind = isAlone ? frameKinds.dispatched | IS_ALONE : frameKinds.dispatched;
    for (const [front, places] of byFront(items)) {
      const numbers = numbersOf(items, places);
      const { block, from } = wordsFrame(this.#blocks, kind, [numbers.length, ...numbers]);
      front.outbox.add(block, from, block.end);
      front.outbox.flush();
    }
  }

  #finished(items: readonly RemoteItem[], outputs: readonly Tensor[]): void {
    for (const { lane } of items) this.#ended(lane);
    for (const [front, places] of byFront(items)) {
      const numbers = numbersOf(items, places);
      const observation = items[0]?.lane.front === front ? this.#observation : undefined;
      this.#rowsFrames.add(front.outbox, this.#blocks, { numbers, places, outputs, observation });
      front.outbox.flush();
    }
  }

  #failed({ lane, number }: RemoteItem, error: SconceError): void {
    this.#ended(lane);
    if (lane.front.isGone) return;
    const { code, message } = error;
    const failure = { number, code, message, at: authorLine(error) };
    tell(lane.front, jsonFrame(this.#blocks, frameKinds.failed, failure));
  }

  #ended(lane: Lane): void {
    const { front, number } = lane;
    lane.count -= 1;
    if (lane.count > 0) return;
    if (front.lanes.get(number) === lane) front.lanes.delete(number);
    if (lane.isCanceled && !front.isGone) this.#tellCanceled(front, number);
  }
}

/** With all else that the front is told before the event loop turns. */
function tell({ outbox }: Front, { block, from }: Made): void {
  outbox.add(block, from, block.end);
  outbox.flushSoon();
}

/** Of the items in these places; of all where there are none. */
function numbersOf(items: readonly RemoteItem[], places: readonly number[] | undefined): number[] {
  return places?.map((place) => items[place]?.number ?? 0) ?? items.map(({ number }) => number);
}

/** The places of the items of each front that is still there; undefined where all are its own. */
function byFront(items: readonly RemoteItem[]): Iterable<readonly [Front, readonly number[] | undefined]> {
  const first = items[0]?.lane.front;
  if (first === undefined) return [];
  if (items.every(({ lane }) => lane.front === first)) return first.isGone ? [] : [[first, undefined]];
  const places = new Map<Front, number[]>();
  for (const [i, { lane }] of items.entries()) {
    if (lane.front.isGone) continue;
    const known = places.get(lane.front);
    if (known === undefined) places.set(lane.front, [i]);
    else known.push(i);
  }
  return places;
}
