/** Advances the items of all lanes together, step by step (continuous batching): items join and leave between steps. */

import type { Tensor } from "../author/tensor.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { hasCode, SconceError } from "../base/errors.ts";
import { Turn } from "../base/turn.ts";
import { BatchEngine, type BatchEngineOptions, type BatchItem, runError } from "./batch-engine.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { joinedRows } from "./rows.ts";
import type { Stepped, Stepper } from "./runner.ts";
import { StepQueue } from "./step-queue.ts";

/** The engine for these runners: steps if the model has `step`, otherwise batches. */
export function engineOver<T extends BatchItem>(options: BatchEngineOptions<T>): BatchEngine<T> | StepEngine<T> {
  const steppers = options.runners.flatMap(({ stepper }) => stepper ?? []);
  return steppers.length === 0 ? new BatchEngine(options) : new StepEngine(options, steppers);
}

/** An item between its first and its last step. */
interface Running<T> {
  readonly item: T;
  state: unknown;
  /** Whether no step had the item so far. */
  isNew: boolean;
}

interface Slot<T> {
  readonly stepper: Stepper;
  running: Running<T>[];
  isBusy: boolean;
  /** Start of the call of the author's code that runs. */
  sinceMs: number;
}

/**
 * A runner has at most `maxBatchSize` items. Before each step, waiting items take the free places, in turn over the lanes. Items with `isAlone` have
 * all runners to themselves, from their first step to the last. A step that fails runs again in halves, until the bad item fails alone.
 */
export class StepEngine<T extends BatchItem> {
  readonly instances: number;
  readonly #options: BatchEngineOptions<T>;
  readonly #clock: Clock;
  readonly #slots: readonly Slot<T>[];
  readonly #waiting = new StepQueue<T>();
  readonly #sizes: FittingSizes;
  readonly #canceled = new WeakSet<object>();
  #isPumpScheduled = false;

  constructor(options: BatchEngineOptions<T>, steppers: readonly Stepper[]) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#sizes = new FittingSizes(options.maxBatchSize);
    this.#slots = steppers.map((stepper) => ({ stepper, running: [], isBusy: false, sinceMs: 0 }));
    this.instances = steppers.length;
  }

  get maxBatchSize(): number {
    return this.#options.maxBatchSize;
  }

  /** Milliseconds since the start of the oldest running step; 0 without one. */
  get runningForMs(): number {
    const now = this.now();
    return Math.max(...this.#slots.map(({ isBusy, sinceMs }) => (isBusy ? now - sinceMs : 0)));
  }

  now(): number {
    return this.#clock.now();
  }

  /** Queues an item. An idle runner starts at the end of this turn of the event loop; a busy one has free places before its next step. */
  submit(item: T): void {
    this.#waiting.add(item);
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.pump();
    });
  }

  /** Removes the queued items of a lane. Running items leave before the next step, and fail with `canceled`. */
  cancel(lane: object): T[] {
    this.#canceled.add(lane);
    return this.#waiting.remove(lane);
  }

  /** Starts idle runners, if items wait for them. */
  pump(): void {
    const idle = this.#slots.filter(({ isBusy }) => !isBusy);
    for (const [i, slot] of idle.entries()) {
      const items = this.#joiners(slot, Math.ceil(this.#waiting.length / (idle.length - i)));
      if (items.length > 0) void this.#run(slot, items);
    }
  }

  /** Steps never wait for more items. */
  hurry(): void {}

  /** Closes the runners. Unfinished items fail with `session_closed`. */
  async close(): Promise<void> {
    await Promise.all(this.#options.runners.map((runner) => runner.dispose()));
  }

  /** Runs steps until the runner has no item. */
  async #run(slot: Slot<T>, first: readonly T[]): Promise<void> {
    const turn = new Turn();
    slot.isBusy = true;
    for (let joiners = first; slot.running.length > 0 || joiners.length > 0; joiners = this.#joiners(slot)) {
      await this.#begin(slot, joiners);
      const most = this.#sizes.of("", this.now());
      for (let i = 0, all = slot.running; i < all.length; i += most) await this.#step(slot, all.slice(i, i + most));
      if (turn.isOver) await turn.next();
      this.#removeCanceled(slot);
      slot.stepper.free(slot.running.map(({ state }) => state));
    }
    slot.isBusy = false;
    // An item that runs alone may have waited for this runner.
    this.pump();
  }

  /** The waiting items that take the free places of a runner. */
  #joiners({ running }: Slot<T>, most = Infinity): readonly T[] {
    const { isHeard } = this.#options;
    const hasItems = this.#slots.some((slot) => slot.running.length > 0);
    if (this.#waiting.hasAlone) return hasItems || isHeard?.() === false ? [] : this.#waiting.takeAlone();
    if (this.#slots.some((slot) => slot.running[0]?.item.isAlone)) return [];
    return this.#waiting.take(Math.min(most, this.#sizes.of("", this.now()) - running.length), this.now());
  }

  async #begin(slot: Slot<T>, items: readonly T[]): Promise<void> {
    if (items.length === 0) return;
    const joining = items.map((item): Running<T> => ({ item, state: undefined, isNew: true }));
    slot.running.push(...joining);
    for (const item of items) item.dispatchedAtMs = this.now();
    this.#options.listener.dispatched(items);
    for (const each of joining) {
      if (this.#canceled.has(each.item.lane)) continue;
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
    this.#sendParts(group, results);
    for (const [i, result] of results.entries()) {
      const each = group[i];
      if (each === undefined || this.#canceled.has(each.item.lane)) continue;
      if (result.outputs === undefined) {
        each.state = result.state;
      } else {
        leave(slot, each);
        this.#options.listener.finished([each.item], result.outputs);
      }
    }
  }

  /** Parts of equal sizes go together: one frame a step. */
  #sendParts(group: readonly Running<T>[], results: readonly Stepped[]): void {
    const parts = group.flatMap(({ item }, i) => {
      const part = results[i]?.part;
      return part === undefined || this.#canceled.has(item.lane) ? [] : [{ item, part }];
    });
    const sizes = ({ part }: { readonly part: readonly Tensor[] }) => part.map(({ shape }) => shape.join()).join(";");
    for (const alike of Map.groupBy(parts, sizes).values()) {
      this.#options.listener.part(
        alike.map(({ item }) => item),
        joinedRows(alike.map(({ part }) => part)),
      );
    }
  }

  /** Steps again in halves. The states are those before the failed step. */
  async #stepFailed(slot: Slot<T>, group: readonly Running<T>[], cause: unknown): Promise<void> {
    if (group.length === 1 || hasCode(cause, "session_closed")) {
      for (const each of group) this.#failed(slot, each, cause);
      return;
    }
    if (hasCode(cause, "out_of_memory")) this.#shrinkBelow(group.length);
    const middle = group.length >> 1;
    await this.#step(slot, group.slice(0, middle));
    await this.#step(slot, group.slice(middle));
  }

  #failed(slot: Slot<T>, each: Running<T>, cause: unknown): void {
    const { listener } = this.#options;
    leave(slot, each);
    const { item } = each;
    if (!hasCode(cause, "session_closed")) {
      // Deprioritised items use no queue slots of new items.
      const waiting = this.#waiting.blame(item.lane);
      if (waiting.length > 0) listener.dispatched(waiting);
    }
    listener.failed(item, runError(cause));
  }

  #removeCanceled(slot: Slot<T>): void {
    for (const each of [...slot.running]) {
      if (!this.#canceled.has(each.item.lane)) continue;
      leave(slot, each);
      this.#options.listener.failed(
        each.item,
        new SconceError("canceled", "the prediction ended before the last step"),
      );
    }
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
