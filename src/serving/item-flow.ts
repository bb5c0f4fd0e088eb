/** The way of items through the engine and back: each input is begun in turn with those of all other lists, each row made an output. */
import type { Engine, EngineListener, Rows } from "../engine/engine.ts";
import { codedError, type SconceError } from "../errors.ts";
import type { Charge } from "../memory/charge.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import { DrainRate } from "./drain-rate.ts";
import { FetchedFiles } from "./fetched-files.ts";
import { LimitedGate } from "./gate.ts";
import { type ItemList, ListItem } from "./item-list.ts";
import type { ItemPipeline, Tensors } from "./item-pipeline.ts";
import { Turns } from "./turns.ts";

export interface ItemFlowLimits {
  /** Most bytes, of tensors and of the files they came from, that wait for a batch or for `postprocess`. */
  readonly maxReadyBytes: number;
  /** Most files that are fetched at the same time. */
  readonly maxFetches: number;
  /** Counts the same bytes beside all else that the server holds; by default there is no such limit. */
  readonly memory?: MemoryAccount;
  /** Share of the turns that lists which no client waits for have while there is more to do than can be done. */
  readonly pollShare: number;
}

export const defaultFlowLimits: ItemFlowLimits = { maxReadyBytes: 256 * 2 ** 20, maxFetches: 32, pollShare: 0.1 };

/** Longest time spent beginning inputs before the event loop turns: a small network is done with one batch while the next is prepared. */
const MAX_HOLD_MS = 2;
/** Inputs of one list that are fetched, or asynchronously preprocessed, at the same time: those that hang must not hold up everybody. */
const MAX_SLOW_OF_ONE = 32;
/** Inputs of all lists that the model's code is making ready at the same time. */
const MAX_PREPARING = 512;
/** How often a queue that does not move is looked at. */
const LOOK_MS = 50;
/** By how much of the difference a slower item counts for how fast items can be. */
const SLOWER = 0.02;

export class ItemFlow implements EngineListener<ListItem> {
  readonly #engine: Engine<ListItem>;
  readonly #pipeline: ItemPipeline;
  readonly #maxReadyBytes: number;
  readonly #memory: MemoryAccount;
  /** Of `#bytes`, all but fetched files, which are charged from their first byte. */
  readonly #charge: Charge;
  /** Most items that wait for a batch: a few batches, so that the device never waits for one. */
  readonly #maxReady: number;
  /** Of a list with an input that failed: its items wait behind all others'. */
  readonly #maxReadyOfFailed: number;
  /** Lists with inputs that can be begun, or were fetched. */
  readonly #turns: Turns;
  readonly #fetches: LimitedGate;
  /** Of items that go to a runner, while there is no room for more. */
  readonly #rate = new DrainRate();
  #ready = 0;
  #preparing = 0;
  #finishing = 0;
  /** Bytes of what is ready, of fetched files, and of rows that `postprocess` has. */
  #bytes = 0;
  /** Bytes that an asynchronously prepared item is expected to have once it is ready, by those before it; undefined before the first one, where its declaration leaves it open. */
  #expectedBytes: number | undefined;
  #isBeginning = false;
  #lookTimer: ReturnType<typeof setTimeout> | undefined;
  /** Milliseconds from being given to the engine until finished, of the fastest items of late. */
  #leastMs = 0;
  /** Of the time that inputs may be begun for before others have their turn. */
  #heldMs = 0;
  #willGoOn = false;

  constructor(engine: Engine<ListItem>, pipeline: ItemPipeline, limits: ItemFlowLimits = defaultFlowLimits) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#maxReadyBytes = limits.maxReadyBytes;
    this.#maxReady = Math.max(8, 3 * engine.maxBatchSize * engine.instances);
    this.#maxReadyOfFailed = Math.max(1, engine.maxBatchSize >> 3);
    this.#memory = limits.memory ?? new MemoryAccount();
    this.#charge = this.#memory.add("tensors", 0);
    this.#expectedBytes = pipeline.declaredBytes;
    this.#fetches = new LimitedGate(limits.maxFetches);
    this.#turns = new Turns({
      pollShare: limits.pollShare,
      batchSize: engine.maxBatchSize * engine.instances,
      itemsMs: (items, nowMs) => this.#rate.waitMs(items, nowMs),
    });
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
    return { items: this.#ready, bytes: this.#bytes };
  }

  /** When the first input of one more list is likely to be begun, and how long at most it may wait for that: see `Turns`. */
  waitMs(isWaitedFor: boolean): { readonly waitMs: number; readonly patienceMs: number } {
    if (this.#hasRoom()) return { waitMs: 0, patienceMs: Infinity };
    const nowMs = performance.now();
    this.#turns.look(nowMs);
    return this.#turns.waitMs(isWaitedFor, nowMs);
  }

  /** Lets the inputs of a list come in turn with those of all others. */
  run(list: ItemList): void {
    this.#queue(list);
    this.#begin();
  }

  /** Its client knows where to find the outputs and waits no more. */
  notWaitedFor(list: ItemList): void {
    list.isWaitedFor = false;
    if (this.#turns.delete(list)) this.#queue(list);
  }

  /** Gives up the inputs of a list that have not ended. */
  end(list: ItemList): void {
    list.end();
    this.#turns.leave(list, performance.now());
    if (!list.isComplete) this.#engine.cancel(list);
    this.#ready -= list.ready;
    this.#preparing -= list.preparing;
    this.#hold(list, -list.bytes, -list.tensorBytes);
    list.ready = 0;
    list.preparing = 0;
    list.fetched.length = 0;
    this.#begin();
  }

  dispatched(items: readonly ListItem[]): void {
    for (const item of items) {
      this.#leave(item);
      item.lane.dispatched();
      if (item.lane.hasFailed) this.#queue(item.lane);
    }
    this.#begin();
    this.#rate.ended(items.length, performance.now(), this.#hasRoom());
  }

  finished({ lane, index, submittedAtMs }: ListItem, rows: Rows): void {
    const tookMs = performance.now() - submittedAtMs;
    const isFaster = this.#leastMs === 0 || tookMs < this.#leastMs;
    this.#leastMs = isFaster ? tookMs : this.#leastMs + SLOWER * (tookMs - this.#leastMs);
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
    this.#leave(item);
    item.lane.failed(item.index, error);
  }

  /** An asynchronous `postprocess` holds its rows: while they are many nothing else is begun. */
  #finishLater(lane: ItemList, index: number, { output, bytes }: { output: Promise<unknown>; bytes: number }): void {
    this.#bytes += bytes;
    this.#charge.grow(bytes);
    this.#finishing += 1;
    output
      .then(
        (value) => lane.succeeded(index, value),
        (error: unknown) => lane.failed(index, codedError(error)),
      )
      .finally(() => {
        this.#bytes -= bytes;
        this.#charge.grow(-bytes);
        this.#finishing -= 1;
        this.#begin();
      });
  }

  /** Begins inputs, one of each list in turn, as far ahead of the batches as there is room. */
  #begin(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isBeginning || this.#willGoOn) return;
    let begin = performance.now();
    this.#isBeginning = true;
    // An empty queue does not stand.
    this.#turns.look(begin);
    while (this.#hasRoom()) {
      const list = this.#turns.next();
      if (list === undefined) break;
      this.#turns.delete(list);
      if (list.next === 0 && begin + this.#leastMs > list.deadlineMs) list.refuse("late");
      else this.#beginOne(list);
      const now = performance.now();
      this.#heldMs += now - begin;
      begin = now;
      if (this.#heldMs > MAX_HOLD_MS) {
        this.#goOnLater();
        break;
      }
    }
    this.#isBeginning = false;
    if (this.#turns.size > 0 && !this.#hasRoom()) {
      this.#rate.begun(performance.now());
      this.#lookLater();
    }
  }

  /** A device that hangs dispatches nothing: clients that wait for it leave all the same. */
  #lookLater(): void {
    this.#lookTimer ??= setTimeout(() => {
      this.#lookTimer = undefined;
      this.#begin();
    }, LOOK_MS);
    this.#lookTimer.unref();
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

  /** Beside what is ready and what is being made ready; one alone is always let in. */
  #hasRoom(): boolean {
    if (this.#ready >= this.#maxReady || this.#preparing >= MAX_PREPARING) return false;
    if (this.#ready + this.#preparing + this.#finishing === 0) return true;
    // Before the first of its kind is ready nobody knows how large they are.
    if (this.#expectedBytes === undefined && this.#preparing >= this.#maxReady) return false;
    const coming = this.#preparing * (this.#expectedBytes ?? 0);
    if (this.#bytes + coming >= this.#maxReadyBytes) return false;
    if (this.#memory.hasRoom("tensors", coming + (this.#expectedBytes ?? 0))) return true;
    this.#memory.onceRoom(this.#onRoom);
    return false;
  }

  readonly #onRoom = (): void => this.#begin();

  /** Lets a list have another turn, if it has something to do in it: of one with much under way the next end lets it come back. */
  #queue(list: ItemList): void {
    if (list.isOver || list.preparing >= MAX_SLOW_OF_ONE) return;
    if (list.hasFailed && list.ready >= this.#maxReadyOfFailed) return;
    const isOpen = list.next < list.count && list.fetching + list.fetched.length + list.preparing < MAX_SLOW_OF_ONE;
    if (isOpen || list.fetched.length > 0) this.#turns.add(list, performance.now());
  }

  /** Takes the next step of a list, which is not in the queue while it does. */
  #beginOne(list: ItemList): void {
    const fetched = list.fetched.shift();
    if (fetched !== undefined) {
      this.#hold(list, -this.#pipeline.fileBytesOf(list.input(fetched)), 0);
      this.#prepare(list, fetched);
    } else {
      const index = list.next++;
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
    }
    this.#queue(list);
  }

  async #fetch(list: ItemList, index: number): Promise<void> {
    try {
      list.hold(index, await this.fetch(list.input(index), { owner: list, signal: list.signal }));
      if (list.isOver) return;
      this.#hold(list, this.#pipeline.fileBytesOf(list.input(index)), 0);
      list.fetched.push(index);
    } catch (error) {
      list.failed(index, codedError(error));
    } finally {
      list.fetching -= 1;
      this.#queue(list);
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
    list.preparing += 1;
    this.#preparing += 1;
    try {
      const ready = await tensors;
      if (list.isOver) return;
      const bytes = this.#submit(list, index, ready);
      // The largest of late counts, so that few large items among many small ones are not underrated for long.
      this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
    } catch (error) {
      list.failed(index, codedError(error));
    } finally {
      // Of a list that was ended nothing is counted any more.
      if (list.preparing > 0) {
        list.preparing -= 1;
        this.#preparing -= 1;
      }
      this.#queue(list);
      this.#begin();
    }
  }

  #submit(list: ItemList, index: number, tensors: Tensors): number {
    const fileBytes = this.#pipeline.fileBytesOf(list.input(index));
    const bytes = bytesOf(tensors) + fileBytes;
    const item = new ListItem(list, index, { bytes, tensorBytes: bytes - list.fetchedBytes(index) });
    list.ready += 1;
    this.#ready += 1;
    this.#hold(list, bytes, item.tensorBytes);
    try {
      this.#engine.submit(item, tensors);
    } catch (error) {
      this.#leave(item);
      throw error;
    }
    return bytes;
  }

  /** It waits no more. Of a list that was ended nothing is counted any more. */
  #leave(item: ListItem): void {
    if (!item.isWaiting) return;
    item.isWaiting = false;
    const { lane, bytes, tensorBytes } = item;
    if (lane.ready === 0) return;
    lane.ready -= 1;
    this.#ready -= 1;
    this.#hold(lane, -bytes, -tensorBytes);
  }

  #hold(list: ItemList, bytes: number, tensorBytes: number): void {
    list.bytes += bytes;
    list.tensorBytes += tensorBytes;
    this.#bytes += bytes;
    this.#charge.grow(tensorBytes);
  }
}

/** The author's code may not have been type-checked: what is no tensor is refused by the engine. */
function bytesOf(tensors: Tensors | undefined): number {
  return Object.values(tensors ?? {}).reduce((sum, tensor) => sum + (tensor?.data?.byteLength ?? 0), 0);
}
