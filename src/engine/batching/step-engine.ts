/**
 * Runs a model's `step` function for the items of all predictions together (continuous batching): items join and leave
 * between steps.
 */

import type { Tensor } from "../../author/tensor.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { hasCode, SconceError } from "../../base/errors.ts";
import { Turn } from "../../base/turn.ts";
import { sizesOf, stackedRows } from "../rows.ts";
import type { Stepped, Stepper } from "../runner.ts";
import { BatchEngine, type BatchEngineOptions, type BatchItem, runError } from "./batch-engine.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { type Joining, StepQueue } from "./step-queue.ts";

/** Creates the engine for these runners: a step engine if the model has `step`, otherwise a batch engine. */
export function engineOver<T extends BatchItem>(options: BatchEngineOptions<T>): BatchEngine<T> | StepEngine<T> {
  const steppers = options.runners.flatMap(({ stepper }) => stepper ?? []);
  return steppers.length === 0 ? new BatchEngine(options) : new StepEngine(options, steppers);
}

interface Running<T> extends Joining<T> {
  state: unknown;
  isNew: boolean;
}

interface Slot<T> {
  readonly stepper: Stepper;
  readonly turn: Turn;
  running: Running<T>[];
  isBusy: boolean;
  /** When the running call of `begin` or `step` started. */
  sinceMs: number;
}

/**
 * A runner has at most `maxBatchSize` items. Waiting items join before each step, and predictions take turns.
 * - A step that fails runs again in halves, until the bad item fails alone.
 * - An item that lacks memory beside others begins again beside half as many. It fails only if it runs alone.
 * - An item that may have crashed an engine process has all runners to itself.
 */
export class StepEngine<T extends BatchItem> {
  readonly instances: number;
  readonly #options: BatchEngineOptions<T>;
  readonly #clock: Clock;
  readonly #slots: readonly Slot<T>[];
  readonly #waiting = new StepQueue<T>();
  readonly #sizes: FittingSizes;
  /**
   * Count of items that joined before a waiting item that lacked memory. Each lowers the number of places by one, so
   * that the waiting item joins in the end.
   */
  #overtaking = 0;
  #isPumpScheduled = false;

  constructor(options: BatchEngineOptions<T>, steppers: readonly Stepper[]) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#sizes = new FittingSizes(options.maxBatchSize);
    this.#slots = steppers.map((stepper) => ({
      stepper,
      turn: new Turn(),
      running: [],
      isBusy: false,
      sinceMs: 0,
    }));
    this.instances = steppers.length;
  }

  get maxBatchSize(): number {
    return this.#options.maxBatchSize;
  }

  /** Milliseconds since the oldest running call of `begin` or `step` started; 0 if none runs. */
  get runningForMs(): number {
    const now = this.now();
    return Math.max(...this.#slots.map(({ isBusy, sinceMs }) => (isBusy ? now - sinceMs : 0)));
  }

  now(): number {
    return this.#clock.now();
  }

  /**
   * Queues an item. An idle runner takes it at the end of this turn of the event loop, a busy runner before its next
   * step.
   */
  submit(item: T): void {
    this.#waiting.add(item);
    this.#pumpSoon();
  }

  /**
   * Removes the queued items of a prediction. Its running items leave before the next step, and fail with `canceled`.
   */
  cancel(lane: object): T[] {
    const items = this.#waiting.remove(lane);
    // Other items may have been waiting for the removed item to run alone.
    this.#pumpSoon();
    return items;
  }

  pump(): void {
    if (this.#waiting.length === 0) return;
    const idle = this.#slots.filter(({ isBusy }) => !isBusy);
    for (const [i, slot] of idle.entries()) {
      const items = this.#joiners(slot, Math.ceil(this.#waiting.length / (idle.length - i)));
      if (items.length > 0) void this.#run(slot, items);
    }
  }

  /** Closes the runners. Unfinished items fail with `session_closed`. */
  async close(): Promise<void> {
    await Promise.all(this.#options.runners.map((runner) => runner.dispose()));
  }

  #pumpSoon(): void {
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.pump();
    });
  }

  async #run(slot: Slot<T>, first: readonly Joining<T>[]): Promise<void> {
    slot.isBusy = true;
    let joining = first;
    do {
      try {
        await this.#advance(slot, joining);
      } catch (error) {
        for (const each of slot.running) this.#failed(slot, each, error);
      }
      // Lets idle runners take waiting items first.
      if (slot.running.length > 0) this.pump();
      joining = slot.running.length > 0 ? this.#joiners(slot) : [];
    } while (slot.running.length > 0);
    slot.isBusy = false;
    this.pump();
  }

  async #advance(slot: Slot<T>, joining: readonly Joining<T>[]): Promise<void> {
    await this.#begin(slot, joining);
    const most = this.#sizes.of("", this.now());
    for (let i = 0, all = slot.running; i < all.length; i += most) await this.#step(slot, all.slice(i, i + most));
    if (slot.turn.isOver) await slot.turn.next();
    this.#removeCanceled(slot);
  }

  /** The waiting items that join a runner before its next step, as many as it has room for. */
  #joiners({ running }: Slot<T>, most = Infinity): readonly Joining<T>[] {
    const all = this.#all();
    const places = Math.min(...all.map(({ maxNeighbours }) => maxNeighbours)) + 1 - all.length;
    const free = Math.min(most, places, this.#sizes.of("", this.now()) - running.length);
    const next = this.#waiting.nextLimited;
    const isHeard = !next?.item.isAlone || this.#options.isHeard?.() !== false;
    if (next === undefined || !isHeard) return this.#waiting.take(free);
    if (free > 0 && all.length <= next.maxNeighbours) {
      this.#overtaking = 0;
      return this.#waiting.takeLimited();
    }
    if (next.item.isAlone) return [];
    const left = this.instances * this.maxBatchSize - this.#overtaking - all.length;
    // Each joining item takes a place, and lowers the number of places by one.
    const overtaking = this.#waiting.take(Math.min(free, Math.ceil(left / 2)));
    this.#overtaking += overtaking.length;
    return overtaking;
  }

  async #begin(slot: Slot<T>, joining: readonly Joining<T>[]): Promise<void> {
    if (joining.length === 0) return;
    const items = joining.map(({ item }) => item);
    const begun = joining.map((each): Running<T> => ({ ...each, state: undefined, isNew: true }));
    slot.running.push(...begun);
    for (const item of items) item.dispatchedAtMs = this.now();
    this.#options.listener.dispatched(items);
    for (const each of begun) {
      if (!this.#isNeeded(each)) continue;
      try {
        slot.sinceMs = this.now();
        each.state = await slot.stepper.begin(each.item.tensors);
      } catch (error) {
        this.#failed(slot, each, error);
      }
    }
    this.#removeCanceled(slot);
  }

  async #step(slot: Slot<T>, group: readonly Running<T>[]): Promise<void> {
    slot.sinceMs = this.now();
    let results: readonly Stepped[];
    try {
      results = await slot.stepper.step(group.map(({ state }) => state));
    } catch (error) {
      await this.#stepFailed(slot, group, error);
      return;
    }
    this.#observe(slot, group);
    const stepped = group.flatMap((each, i) => {
      const result = results[i];
      return result === undefined || !this.#isNeeded(each) ? [] : [{ each, result }];
    });
    for (const { each, result } of stepped) {
      if (result.outputs === undefined) each.state = result.state;
      else leave(slot, each);
    }
    free(slot);
    const { listener } = this.#options;
    const tensorsOf = (key: "part" | "outputs") =>
      stepped.flatMap(({ each: { item }, result: { [key]: tensors } }) => (tensors ? [{ item, tensors }] : []));
    for (const { items, rows } of inFrames(tensorsOf("part"))) listener.part(items, rows);
    for (const { items, rows } of inFrames(tensorsOf("outputs"))) listener.finished(items, rows);
  }

  /** Runs a failed step again in halves, with the states before the step. */
  async #stepFailed(slot: Slot<T>, group: readonly Running<T>[], cause: unknown): Promise<void> {
    // Tensors of the failed step may fill the memory.
    free(slot);
    if (group.length === 1 || hasCode(cause, "session_closed")) {
      for (const each of group) this.#failed(slot, each, cause);
      return;
    }
    if (hasCode(cause, "out_of_memory")) this.#shrinkBelow(group.length);
    const middle = group.length >> 1;
    for (const half of [group.slice(0, middle), group.slice(middle)]) {
      // Items of clients that have left run no more steps. `#removeCanceled` removes them.
      const needed = half.filter((each) => this.#isNeeded(each));
      if (needed.length > 0) await this.#step(slot, needed);
    }
  }

  #failed(slot: Slot<T>, each: Running<T>, cause: unknown): void {
    leave(slot, each);
    free(slot);
    const { listener } = this.#options;
    const { item, maxNeighbours } = each;
    const neighbours = this.#all().length;
    if (hasCode(cause, "out_of_memory") && neighbours > 0 && this.#isNeeded(each)) {
      this.#waiting.addLimited({ item, maxNeighbours: Math.min(maxNeighbours, neighbours) >> 1 });
      return;
    }
    listener.failed(item, runError(cause));
  }

  #removeCanceled(slot: Slot<T>): void {
    const canceled = slot.running.filter((each) => !this.#isNeeded(each));
    for (const each of canceled) {
      leave(slot, each);
      this.#options.listener.failed(
        each.item,
        new SconceError("canceled", "the prediction ended before the last step"),
      );
    }
    if (canceled.length > 0) free(slot);
  }

  #isNeeded({ item }: Running<T>): boolean {
    return this.#options.listener.isNeeded([item]);
  }

  #all(): readonly Running<T>[] {
    return this.#slots.flatMap(({ running }) => running);
  }

  #shrinkBelow(size: number): void {
    const most = this.#sizes.tooLarge("", size, this.now());
    if (most !== undefined) this.#options.onShrink?.(most);
  }

  #observe({ sinceMs }: Slot<T>, group: readonly Running<T>[]): void {
    let waitMs = 0;
    for (const each of group) {
      if (each.isNew) waitMs = Math.max(waitMs, each.item.dispatchedAtMs - each.item.readyAtMs);
      each.isNew = false;
    }
    this.#options.observer?.ran({ size: group.length, waitMs, runMs: this.now() - sinceMs, cause: "step" });
  }
}

function leave<T>(slot: Slot<T>, each: Running<T>): void {
  slot.running = slot.running.filter((other) => other !== each);
}

function free<T>({ stepper, running }: Slot<T>): void {
  stepper.free(running.map(({ state }) => state));
}

/** Groups items whose tensors have equal sizes, so that each group is sent as one frame. */
function inFrames<T>(given: readonly { readonly item: T; readonly tensors: readonly Tensor[] }[]) {
  return [...Map.groupBy(given, ({ tensors }) => sizesOf(tensors)).values()].map((alike) => ({
    items: alike.map(({ item }) => item),
    rows: stackedRows(alike.map(({ tensors }) => tensors)),
  }));
}
