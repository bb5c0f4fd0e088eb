/** The way of items through the engine and back: each input is begun in turn with those of all other lists, each row made an output. */
import type { Engine, EngineListener, Rows } from "../engine/engine.ts";
import { Ring } from "../engine/ring.ts";
import { codedError, type SconceError } from "../errors.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import { DrainRate } from "./drain-rate.ts";
import { FetchedFiles } from "./fetched-files.ts";
import { FlowRoom } from "./flow-room.ts";
import { Gate } from "./gate.ts";
import { type ItemList, ListItem } from "./item-list.ts";
import type { ItemPipeline, Tensors } from "./item-pipeline.ts";

export interface ItemFlowLimits {
  /** Most bytes, of tensors and of the files they came from, that wait for a batch or for `postprocess`. */
  readonly maxReadyBytes: number;
  /** Most files that are fetched at the same time. */
  readonly maxFetches: number;
  /** Counts the same bytes beside all else that the server holds; by default there is no such limit. */
  readonly memory?: MemoryAccount;
}

export const defaultFlowLimits: ItemFlowLimits = { maxReadyBytes: 256 * 2 ** 20, maxFetches: 32 };

/** Longest time spent beginning inputs before the event loop turns: a small network is done with one batch while the next is prepared. */
const MAX_HOLD_MS = 2;
/** Inputs of one list that are fetched, or asynchronously preprocessed, at the same time: those that hang must not hold up everybody. */
const MAX_SLOW_OF_ONE = 32;

export class ItemFlow implements EngineListener<ListItem> {
  readonly #engine: Engine<ListItem>;
  readonly #pipeline: ItemPipeline;
  readonly #memory: MemoryAccount;
  readonly #room: FlowRoom;
  /** Lists with inputs that can be begun, or were fetched. */
  readonly #waiting = new Ring<ItemList>();
  readonly #fetches: Gate;
  /** Of items that go to a runner, while there is no room for more. */
  readonly #rate = new DrainRate();
  #isBeginning = false;
  /** Of the time that inputs may be begun for before others have their turn. */
  #heldMs = 0;
  #willGoOn = false;

  constructor(engine: Engine<ListItem>, pipeline: ItemPipeline, limits: ItemFlowLimits = defaultFlowLimits) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#memory = limits.memory ?? new MemoryAccount();
    this.#room = new FlowRoom({
      // A few batches, so that the device never waits for one.
      maxReady: Math.max(8, 3 * engine.maxBatchSize * engine.instances),
      maxReadyBytes: limits.maxReadyBytes,
      memory: this.#memory,
      itemBytes: pipeline.declaredBytes,
      onRoom: () => this.#begin(),
    });
    this.#fetches = new Gate(limits.maxFetches);
    engine.listener = this;
  }

  /** Fetches files within the limits for all, whoever they are for. */
  fetch(
    input: unknown,
    { owner, signal }: { readonly owner: object; readonly signal: AbortSignal },
  ): Promise<FetchedFiles> {
    return FetchedFiles.fetch(input, {
      pipeline: this.#pipeline,
      gate: this.#fetches,
      memory: this.#memory,
      owner,
      signal,
    });
  }

  /** Items that wait for a batch, and the bytes that they and what surrounds them hold. */
  get ready(): { readonly items: number; readonly bytes: number } {
    return this.#room.ready;
  }

  /** Milliseconds until the first input of one more list is likely to be begun: one of each that waits comes before it. */
  waitMs(): number {
    return this.#room.isThere() ? 0 : this.#rate.waitMs(this.#waiting.size, performance.now());
  }

  /** Lets the inputs of a list come in turn with those of all others. */
  run(list: ItemList): void {
    if (list.count > 0) this.#waiting.add(list);
    this.#begin();
  }

  /** Gives up the inputs of a list that have not ended. */
  end(list: ItemList): void {
    list.end();
    this.#waiting.delete(list);
    if (!list.isComplete) this.#engine.cancel(list);
    this.#room.clear(list);
    list.fetched.length = 0;
    this.#begin();
  }

  dispatched(items: readonly ListItem[]): void {
    for (const item of items) {
      this.#room.leave(item);
      item.lane.dispatched();
    }
    this.#begin();
    this.#rate.ended(items.length, performance.now(), this.#room.isThere());
  }

  finished({ lane, index }: ListItem, rows: Rows): void {
    if (lane.isOver) return;
    try {
      const output = lane.scope(() => this.#pipeline.finish(rows, lane.input(index)));
      if (output instanceof Promise) this.#finishLater(lane, index, { output, bytes: bytesOf(rows) });
      else lane.succeeded(index, output);
    } catch (error) {
      lane.failed(index, codedError(error));
    }
  }

  failed(item: ListItem, error: SconceError): void {
    this.#room.leave(item);
    item.lane.failed(item.index, error);
  }

  /** An asynchronous `postprocess` holds its rows: while they are many nothing else is begun. */
  #finishLater(lane: ItemList, index: number, { output, bytes }: { output: Promise<unknown>; bytes: number }): void {
    this.#room.finishing(bytes, 1);
    output
      .then(
        (value) => lane.succeeded(index, value),
        (error: unknown) => lane.failed(index, codedError(error)),
      )
      .finally(() => {
        this.#room.finishing(bytes, -1);
        this.#begin();
      });
  }

  /** Begins inputs, one of each list in turn, as far ahead of the batches as there is room. */
  #begin(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isBeginning || this.#willGoOn || this.#waiting.size === 0) return;
    this.#isBeginning = true;
    let begin = performance.now();
    let skipped = 0;
    for (let list = this.#waiting.first; list !== undefined && this.#room.isThere(); list = this.#waiting.first) {
      if (!this.#beginOne(list)) {
        this.#waiting.moveToEnd(list);
        if (++skipped >= this.#waiting.size) break;
        continue;
      }
      skipped = 0;
      const now = performance.now();
      this.#heldMs += now - begin;
      begin = now;
      if (this.#heldMs > MAX_HOLD_MS) {
        this.#goOnLater();
        break;
      }
    }
    this.#isBeginning = false;
    if (this.#waiting.size > 0 && !this.#room.isThere()) this.#rate.begun(performance.now());
  }

  /** After whatever else is at hand. */
  #goOnLater(): void {
    this.#willGoOn = true;
    setImmediate(() => {
      this.#willGoOn = false;
      this.#heldMs = 0;
      this.#begin();
    });
  }

  /** Takes the next step of a list, and ends its turn; false where it has to wait for those before. */
  #beginOne(list: ItemList): boolean {
    const fetched = list.preparing < MAX_SLOW_OF_ONE ? list.fetched.shift() : undefined;
    if (fetched !== undefined) {
      this.#turnEnded(list);
      this.#room.hold(list, -this.#pipeline.fileBytesOf(list.input(fetched)), 0);
      this.#prepare(list, fetched);
      return true;
    }
    if (list.next >= list.count || list.fetching + list.fetched.length + list.preparing >= MAX_SLOW_OF_ONE)
      return false;
    const index = list.next++;
    this.#turnEnded(list);
    try {
      const files = this.#pipeline.remoteFilesOf(list.input(index));
      if (files.length === 0) {
        this.#prepare(list, index);
      } else {
        list.fetching += 1;
        void this.#fetch(list, index);
      }
    } catch (error) {
      list.failed(index, codedError(error));
    }
    return true;
  }

  #turnEnded(list: ItemList): void {
    if (list.next < list.count || list.fetched.length > 0) this.#waiting.moveToEnd(list);
    else this.#waiting.delete(list);
  }

  async #fetch(list: ItemList, index: number): Promise<void> {
    try {
      list.hold(index, await this.fetch(list.input(index), { owner: list, signal: list.signal }));
      if (list.isOver) return;
      this.#room.hold(list, this.#pipeline.fileBytesOf(list.input(index)), 0);
      list.fetched.push(index);
      this.#waiting.add(list);
    } catch (error) {
      list.failed(index, codedError(error));
    } finally {
      list.fetching -= 1;
      this.#begin();
    }
  }

  #prepare(list: ItemList, index: number): void {
    try {
      list.begun();
      const input = list.input(index);
      const tensors = list.scope(() => this.#pipeline.prepare(input, () => list.signal));
      if (tensors instanceof Promise) void this.#prepareLater(list, index, tensors);
      else this.#submit(list, index, tensors);
    } catch (error) {
      list.failed(index, codedError(error));
    }
  }

  async #prepareLater(list: ItemList, index: number, tensors: Promise<Tensors>): Promise<void> {
    this.#room.preparing(list);
    let bytes: number | undefined;
    try {
      const ready = await tensors;
      if (!list.isOver) bytes = this.#submit(list, index, ready);
    } catch (error) {
      list.failed(index, codedError(error));
    } finally {
      this.#room.prepared(list, bytes);
      this.#begin();
    }
  }

  #submit(list: ItemList, index: number, tensors: Tensors): number {
    const fileBytes = this.#pipeline.fileBytesOf(list.input(index));
    const bytes = bytesOf(tensors) + fileBytes;
    const item = new ListItem(list, index, { bytes, tensorBytes: bytes - list.fetchedBytes(index) });
    this.#room.enter(item);
    try {
      this.#engine.submit(item, tensors);
    } catch (error) {
      this.#room.leave(item);
      throw error;
    }
    return bytes;
  }
}

/** The author's code may not have been type-checked: what is no tensor is refused by the engine. */
function bytesOf(tensors: Tensors | undefined): number {
  return Object.values(tensors ?? {}).reduce((sum, tensor) => sum + (tensor?.data?.byteLength ?? 0), 0);
}
