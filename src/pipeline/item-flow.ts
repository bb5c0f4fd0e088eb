/**
 * The flow takes inputs through the hooks of the model and the engine. `Turns` chooses the next input. The flow prepares the
 * input, submits it to the engine, and makes the output.
 */

import type { ModelFile } from "../author/file.ts";
import { codedError, type SconceError } from "../base/errors.ts";
import type { Stage } from "../base/labels.ts";
import type { EngineListener } from "../engine/engine.ts";
import type { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { Rows } from "../engine/rows.ts";
import type { Sender } from "./client.ts";
import { DrainRate } from "./drain-rate.ts";
import { FileFetches } from "./fetched-files.ts";
import { FlowCredits, type ReadyInFronts } from "./flow-credits.ts";
import { type ItemList, ListItem } from "./item-list.ts";
import type { ItemPipeline, Tensors } from "./item-pipeline.ts";
import { MemoryAccount } from "./memory/memory-account.ts";
import { bytesOf, RowFinisher, type StageObserver } from "./row-finisher.ts";
import { Turns } from "./turns.ts";

export interface ItemFlowLimits {
  /** Limit in bytes for tensors that wait for a batch, and for rows that wait for `postprocess`. */
  readonly maxReadyBytes: number;
  readonly maxFetches: number;
  /** Number of fronts that send items to the engine. Default: 1. */
  readonly fronts?: number;
  /** The counts of all fronts. Default: this front is the only one. */
  readonly inFronts?: ReadyInFronts | undefined;
  /** Counts memory for the limit of the server. Default: unlimited. */
  readonly memory?: MemoryAccount;
  /** Gets the time of each stage of an input. */
  readonly observer?: StageObserver;
}

const defaultFlowLimits: ItemFlowLimits = { maxReadyBytes: 256 * 2 ** 20, maxFetches: 32 };

/** Maximum milliseconds of one turn of the event loop for the start of inputs, because results of a batch may wait. */
const MAX_HOLD_MS = 2;
/**
 * Maximum inputs of one prediction that fetch files or have a pending `preprocess` promise, so that other predictions
 * continue if all these inputs hang.
 */
const MAX_SLOW_OF_ONE = 32;

/** The engine, as far as the flow needs it. */
export type FlowEngine = Pick<RemoteEngine<ListItem>, "cancel" | "instances" | "listener" | "maxBatchSize" | "submit">;

export class ItemFlow implements EngineListener<ListItem> {
  readonly #engine: FlowEngine;
  readonly #pipeline: ItemPipeline;
  readonly credits: FlowCredits;
  /**
   * Limit for the items of one prediction in the engine plus its unfinished output rows. The limit applies while
   * there are such rows.
   */
  #maxFinishingOfOne = 0;
  /** Largest batch size, times the number of runners. */
  #batchItems = 1;
  /** Predictions with an input that can begin. */
  readonly #turns: Turns;
  /** Predictions without a started input, which found the engine's queue full and may begin out of turn. */
  readonly #unbegun = new Set<ItemList>();
  readonly fetches: FileFetches;
  /** Rate of dispatched items while the server is full. */
  readonly #rate = new DrainRate(() => this.credits.inService);
  readonly #observer: StageObserver | undefined;
  readonly #finisher: RowFinisher;
  #isBeginning = false;
  /** Time of `performance.now()` at which the newest input began. */
  #turnMs = 0;
  /** Milliseconds spent on beginning inputs in this turn of the event loop. */
  #heldMs = 0;
  #willGoOn = false;

  constructor(engine: FlowEngine, pipeline: ItemPipeline, limits: ItemFlowLimits = defaultFlowLimits) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#observer = limits.observer;
    this.#measure();
    const batchItems = () => this.#batchItems;
    const memory = limits.memory ?? new MemoryAccount();
    this.credits = new FlowCredits({
      batchItems,
      maxReadyBytes: limits.maxReadyBytes,
      fronts: limits.fronts ?? 1,
      inFronts: limits.inFronts,
      memory,
      itemBytes: pipeline.declaredBytes,
      onRoom: () => this.#begin(),
    });
    this.#finisher = new RowFinisher({
      pipeline,
      credits: this.credits,
      observer: limits.observer,
      onFinished: (list) => this.#goOn(list),
    });
    this.fetches = new FileFetches({ pipeline, memory, maxFetches: limits.maxFetches });
    this.#turns = new Turns({ batchItems, itemsMs: (items, nowMs) => this.#rate.waitMs(items, nowMs) });
    engine.listener = this;
  }

  /**
   * Expected milliseconds until the first output of a new prediction, from the inputs before it and the measured rate; 0
   * if its first input begins at once.
   */
  waitMs(client?: { readonly sender: Sender | undefined }): number {
    if (this.credits.areLeft || (this.credits.mayPass && this.#turns.mayPass(client?.sender, 1))) return 0;
    const { ready, running } = this.credits;
    const items = this.#turns.ahead(client?.sender) + ready.items + running + this.#batchItems;
    return this.#rate.remainingMs(items, performance.now());
  }

  /** Whether the senders of predictions matter now: predictions or files wait, or an item has failed lately. */
  get needsSender(): boolean {
    return this.#turns.size > 0 || this.fetches.areFull || this.#turns.isWatching;
  }

  /** Queues the inputs of a prediction. */
  run(list: ItemList): void {
    this.#turns.enter(list);
    this.credits.add(list);
    this.#goOn(list);
  }

  /** Ends a prediction, and cancels its inputs that have no result. */
  end(list: ItemList): void {
    list.end();
    this.#turns.leave(list);
    this.#unbegun.delete(list);
    if (!list.isComplete) this.#engine.cancel(list.items);
    this.credits.clear(list);
    list.fetched.length = 0;
    this.#begin();
    if (this.#rate.isBusy) this.#look();
  }

  dispatched(items: readonly ListItem[], agoMs = 0): void {
    const now = performance.now() - agoMs;
    for (const item of items) {
      const { list, beganMs } = item;
      item.dispatched(items.length, now);
      // Earlier parts exist, so the item runs again: its batch failed, or the engine process ended.
      if (item.parts !== undefined) {
        item.parts = undefined;
        list.restarted(item.index);
      }
      if (this.credits.dispatched(item)) this.#took(item, "queue", beganMs, now);
      list.dispatched();
    }
    this.credits.batchMs = this.#rate.waitMs(this.#batchItems, now);
    this.#begin();
    this.#rate.started(items.length, performance.now());
    this.#look();
  }

  /** Tells the rate whether the server is full and inputs wait. */
  #look(): void {
    if (this.#turns.size > 0 && !this.credits.areLeft) this.#rate.busy(performance.now());
    else this.#rate.idle();
  }

  started(): void {
    this.#measure();
    this.#begin();
  }

  #measure(): void {
    this.#batchItems = this.#engine.maxBatchSize * this.#engine.instances;
    this.#maxFinishingOfOne = Math.max(MAX_SLOW_OF_ONE, 2 * this.#batchItems);
  }

  part(item: ListItem, rows: Rows): void {
    if (!item.list.isOver) this.#finisher.part(item, rows);
  }

  finished(item: ListItem, rows: Rows): void {
    const beganMs = performance.now();
    this.#ended(item, beganMs, false);
    if (item.list.isOver) return;
    this.#finisher.finish(item, rows, beganMs);
    if (item.isSeparate) this.#begin();
  }

  failed(item: ListItem, error: SconceError): void {
    this.#ended(item, performance.now(), true);
    this.#finisher.fail(item, error);
    // The engine may have refused the item, which then leaves the queue without a batch.
    this.#begin();
  }

  #ended(item: ListItem, nowMs: number, hasFailed: boolean): void {
    const { list, index, dispatchedAtMs, batchSize } = item;
    if (batchSize > 0) list.span?.took("forward", dispatchedAtMs, index, batchSize);
    this.#turns.charge(list, item.costMs(nowMs), hasFailed);
    this.credits.ended(item);
  }

  #took({ list, index }: ListItem, stage: Stage, beganMs: number, nowMs = performance.now()): void {
    this.#observer?.took(stage, nowMs - beganMs);
    list.span?.took(stage, beganMs, index);
  }

  /** Fails an input that is not in the engine. */
  #failed({ list, index }: ListItem, error: unknown): void {
    this.credits.failed(list);
    list.failed(index, codedError(error));
  }

  #goOn(list: ItemList): void {
    this.#queue(list);
    if (list.ring !== undefined && !this.credits.areLeft && isUnbegun(list)) this.#unbegun.add(list);
    this.#begin();
  }

  /** Begins inputs, one of each prediction in turn, until a limit is reached. */
  #begin(): void {
    // A failed input may end its prediction, which calls this method inside the loop below.
    if (this.#isBeginning || this.#willGoOn || this.#turns.size === 0) return;
    let begin = performance.now();
    this.#isBeginning = true;
    // Decides the order before inputs leave the queue.
    this.#turns.look(begin);
    for (let list = this.#next(); list !== undefined; list = this.#next()) {
      this.#turns.take(list);
      this.#turnMs = begin;
      if (list.next === 0 && this.#isTooLate(list, begin)) {
        this.#turns.delete(list);
        list.expire();
      } else this.#beginOne(list);
      const now = performance.now();
      this.#heldMs += now - begin;
      begin = now;
      if (this.#heldMs > MAX_HOLD_MS) {
        this.#goOnLater();
        break;
      }
    }
    this.#isBeginning = false;
    if (this.#turns.size > 0) this.#look();
  }

  #next(): ItemList | undefined {
    if (this.credits.areLeft) return this.#turns.next(this.credits.isSeparateFull);
    for (const list of this.#unbegun) {
      if (!this.credits.mayPass) return undefined;
      // A prediction that may not pass waits for its turn.
      this.#unbegun.delete(list);
      if (list.ring !== undefined && isUnbegun(list) && this.#turns.mayPass(list.sender)) return list;
    }
    return undefined;
  }

  /** Whether the time limit of a prediction ends before a batch could. */
  #isTooLate({ deadlineMs }: ItemList, nowMs: number): boolean {
    return this.#rate.isBusy && nowMs + this.#rate.waitMs(this.#batchItems, nowMs) > deadlineMs;
  }

  #goOnLater(): void {
    this.#willGoOn = true;
    setImmediate(() => {
      this.#willGoOn = false;
      this.#heldMs = 0;
      this.#begin();
    });
  }

  /** Queues a prediction if it has an input that can begin. Otherwise a later result queues it. */
  #queue(list: ItemList): void {
    if (this.#canBegin(list)) this.#turns.add(list);
    else this.#turns.delete(list);
  }

  #canBegin(list: ItemList): boolean {
    if (list.isOver || list.preparing >= MAX_SLOW_OF_ONE) return false;
    // A prediction with many unfinished rows must wait, because a slow `postprocess` would leave no room for other
    // predictions.
    if (list.finishing > 0 && list.items.size + list.finishing >= this.#maxFinishingOfOne) return false;
    return list.fetched.length > 0 || (list.next < list.count && list.fetching + list.preparing < MAX_SLOW_OF_ONE);
  }

  /**
   * Prepares an input whose files are fetched. Without one, begins the next input: fetches its remote files, or
   * prepares it.
   */
  #beginOne(list: ItemList): void {
    const fetched = list.fetched.shift();
    if (fetched !== undefined) {
      fetched.beganMs = this.#turnMs;
      this.#prepare(fetched);
    } else {
      const item = new ListItem(list, list.next++, this.#turnMs);
      try {
        const files = this.#pipeline.remoteFilesOf(item.input);
        if (files.length === 0) this.#prepare(item);
        else {
          list.fetching += 1;
          void this.#fetch(item, files);
        }
      } catch (error) {
        this.#failed(item, error);
      }
    }
    this.#queue(list);
  }

  async #fetch(item: ListItem, files: readonly ModelFile[]): Promise<void> {
    const { list, index } = item;
    try {
      list.hold(index, await this.fetches.fetch(files, { owner: list.client?.address ?? list, signal: list.signal }));
      if (list.isOver) return;
      this.#took(item, "fetch", item.beganMs);
      list.fetched.push(item);
    } catch (error) {
      this.#failed(item, error);
    } finally {
      list.fetching -= 1;
      this.#goOn(list);
    }
  }

  #prepare(item: ListItem): void {
    const { list } = item;
    try {
      list.processing();
      const tensors = list.isScoped ? this.#prepareInScope(item) : this.#pipeline.prepare(item);
      if (tensors instanceof Promise) void this.#prepareLater(item, tensors);
      else this.#submit(item, tensors, 0);
    } catch (error) {
      this.#failed(item, error);
    }
  }

  /** A separate method, so that other inputs cost no closure. */
  #prepareInScope(item: ListItem): Tensors | Promise<Tensors> {
    return item.list.scope(() => this.#pipeline.prepare(item));
  }

  async #prepareLater(item: ListItem, tensors: Promise<Tensors>): Promise<void> {
    const { list } = item;
    this.credits.preparing(list);
    let bytes: number | undefined;
    try {
      const ready = await tensors;
      if (!list.isOver) bytes = this.#submit(item, ready, this.#pipeline.waitedMsOf(item.input));
    } catch (error) {
      this.#failed(item, error);
    } finally {
      this.credits.prepared(list, bytes);
      this.#goOn(list);
    }
  }

  /**
   * Hands an item over to the engine. @param waitedMs milliseconds for which its files waited for memory, threads, other
   * models and the event loop
   */
  #submit(item: ListItem, tensors: Tensors, waitedMs: number): number {
    const { list, index, beganMs } = item;
    const nowMs = performance.now();
    // Files may wait at the same time, so the sum of their waits may exceed the time of the stage.
    const waitMs = Math.min(waitedMs, nowMs - beganMs);
    this.#observer?.took("preprocess", nowMs - beganMs - waitMs);
    if (waitMs > 0) this.#observer?.took("preprocess_wait", waitMs);
    list.span?.took("preprocess", beganMs, index);
    const fileBytes = this.#pipeline.fileBytesOf(item.input) - list.fetchedBytes(index);
    item.ready(bytesOf(tensors) + fileBytes, nowMs);
    this.credits.enter(item);
    try {
      this.#engine.submit(item, tensors);
    } catch (error) {
      this.credits.refused(item);
      throw error;
    }
    return item.bytes;
  }
}

/** Whether a prediction has no item in the engine, and none on its way there. */
function isUnbegun({ items, preparing, fetching }: ItemList): boolean {
  return items.size + preparing + fetching === 0;
}
