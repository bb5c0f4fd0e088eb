/**
 * Runs a model's `step` function for the items of all predictions together (continuous batching): items join and leave
 * between steps.
 */

import type { Tensor } from "../../author/tensor.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { codedError, hasCode, SconceError } from "../../base/errors.ts";
import { Turn } from "../../base/turn.ts";
import { sizesOf, stackedRows } from "../rows.ts";
import type { Stepped, Stepper } from "../runner.ts";
import type { BatchItem, Batching, BatchingOptions, BatchListener } from "./batching.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { ItemQueue } from "./item-queue.ts";

/** An item that joins a runner, or runs on it. */
interface Running<T> {
  readonly item: T;
  /** Whether no item may join any runner while this item runs. */
  readonly isAlone: boolean;
  readonly joinedAtMs: number;
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
 * A runner has at most `maxBatchSize` items. Waiting items join before each step, in the order of their places.
 * - A step that fails runs again in halves, until the bad item fails alone.
 * - An item that lacks memory beside others lowers the number of places of a runner, and begins again in a free place.
 *   An item that lacks memory alone fails.
 * - An item that may have crashed an engine process has all runners to itself.
 */
export class StepBatcher<T extends BatchItem> implements Batching<T> {
  readonly #listener: BatchListener<T>;
  readonly #clock: Clock;
  readonly #slots: readonly Slot<T>[];
  readonly #queue: ItemQueue<T>;
  readonly #sizes: FittingSizes;
  #isPumpScheduled = false;

  constructor(options: BatchingOptions, listener: BatchListener<T>, steppers: readonly Stepper[]) {
    const { maxBatchSize, clock = systemClock } = options;
    this.#listener = listener;
    this.#clock = clock;
    this.#sizes = new FittingSizes(maxBatchSize);
    this.#queue = new ItemQueue({ maxBatchSize, maxQueueDelayMs: 0, mostOf: () => maxBatchSize });
    this.#slots = steppers.map((stepper) => ({ stepper, turn: new Turn(), running: [], isBusy: false, sinceMs: 0 }));
  }

  get length(): number {
    return this.#queue.length;
  }

  get runningForMs(): number {
    const now = this.#clock.now();
    return Math.max(...this.#slots.map(({ isBusy, sinceMs }) => (isBusy ? now - sinceMs : 0)));
  }

  /** An idle runner takes the item at the end of this turn of the event loop, a busy runner before its next step. */
  submit(item: T): void {
    this.#queue.add(item);
    this.#pumpSoon();
  }

  removeUnneeded(): T[] {
    const items = this.#queue.remove((item) => !this.#listener.isNeeded(item));
    // Other items may have been waiting for the removed item to run alone.
    this.#pumpSoon();
    return items;
  }

  pump(): void {
    if (this.#queue.length === 0) return;
    const idle = this.#slots.filter(({ isBusy }) => !isBusy);
    for (const [i, slot] of idle.entries()) {
      const items = this.#joiners(slot, Math.ceil(this.#queue.length / (idle.length - i)));
      if (items.length > 0) void this.#run(slot, items);
    }
  }

  #pumpSoon(): void {
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.pump();
    });
  }

  async #run(slot: Slot<T>, first: readonly Running<T>[]): Promise<void> {
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

  async #advance(slot: Slot<T>, joining: readonly Running<T>[]): Promise<void> {
    await this.#begin(slot, joining);
    const most = this.#sizes.of("", this.#clock.now());
    for (let i = 0, all = slot.running; i < all.length; i += most) await this.#step(slot, all.slice(i, i + most));
    if (slot.turn.isOver) await slot.turn.next();
    this.#removeCanceled(slot);
  }

  /** The waiting items that join a runner before its next step, as many as it has room for. */
  #joiners({ running }: Slot<T>, most = Infinity): readonly Running<T>[] {
    const all = this.#all();
    if (all.some(({ isAlone }) => isAlone)) return [];
    if (this.#queue.hasAlone && this.#listener.isHeard?.() !== false) {
      return all.length > 0 ? [] : this.#joining(this.#queue.takeAlone(), true);
    }
    const free = this.#sizes.of("", this.#clock.now()) - running.length;
    return this.#joining(this.#queue.takeFirst(Math.min(most, free)), false);
  }

  #joining(items: readonly T[], isAlone: boolean): readonly Running<T>[] {
    const joinedAtMs = this.#clock.now();
    return items.map((item) => ({ item, isAlone, joinedAtMs, state: undefined, isNew: true }));
  }

  async #begin(slot: Slot<T>, started: readonly Running<T>[]): Promise<void> {
    if (started.length === 0) return;
    slot.running.push(...started);
    this.#listener.dispatched(
      started.map(({ item }) => item),
      false,
    );
    for (const each of started) {
      if (!this.#isNeeded(each)) continue;
      try {
        slot.sinceMs = this.#clock.now();
        each.state = await slot.stepper.begin(each.item.tensors);
      } catch (error) {
        this.#failed(slot, each, error);
      }
    }
    this.#removeCanceled(slot);
  }

  async #step(slot: Slot<T>, group: readonly Running<T>[]): Promise<void> {
    slot.sinceMs = this.#clock.now();
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
    const tensorsOf = (key: "part" | "outputs") =>
      stepped.flatMap(({ each: { item }, result: { [key]: tensors } }) => (tensors ? [{ item, tensors }] : []));
    for (const { items, rows } of inFrames(tensorsOf("part"))) this.#listener.part(items, rows);
    for (const { items, rows } of inFrames(tensorsOf("outputs"))) this.#listener.finished(items, rows);
  }

  /** Runs a failed step again in halves, with the states before the step. */
  async #stepFailed(slot: Slot<T>, group: readonly Running<T>[], cause: unknown): Promise<void> {
    // Tensors of the failed step may fill the memory.
    free(slot);
    if (group.length === 1 || hasCode(cause, "session_closed")) {
      for (const each of group) this.#failed(slot, each, cause);
      return;
    }
    const middle = group.length >> 1;
    if (hasCode(cause, "out_of_memory")) this.#limit(middle);
    for (const half of [group.slice(0, middle), group.slice(middle)]) {
      // Items of clients that have left run no more steps. `#removeCanceled` removes them.
      const needed = half.filter((each) => this.#isNeeded(each));
      if (needed.length > 0) await this.#step(slot, needed);
    }
  }

  #failed(slot: Slot<T>, each: Running<T>, cause: unknown): void {
    leave(slot, each);
    free(slot);
    const { item } = each;
    if (hasCode(cause, "out_of_memory") && this.#all().length > 0 && this.#isNeeded(each)) {
      if (slot.running.length > 0) {
        this.#limit(slot.running.length);
        this.#queue.add(item);
      } else this.#queue.addAlone([item]);
      return;
    }
    this.#listener.failed(item, codedError(cause, "run_failed"));
  }

  #removeCanceled(slot: Slot<T>): void {
    const canceled = slot.running.filter((each) => !this.#isNeeded(each));
    for (const each of canceled) {
      leave(slot, each);
      this.#listener.failed(each.item, new SconceError("canceled", "the prediction ended before the last step"));
    }
    if (canceled.length > 0) free(slot);
  }

  #isNeeded({ item }: Running<T>): boolean {
    return this.#listener.isNeeded(item);
  }

  #all(): readonly Running<T>[] {
    return this.#slots.flatMap(({ running }) => running);
  }

  /** Lowers the number of places of each runner. */
  #limit(most: number): void {
    if (this.#sizes.limit("", most, this.#clock.now())) this.#listener.shrunk?.(most);
  }

  #observe({ sinceMs }: Slot<T>, group: readonly Running<T>[]): void {
    let waitMs = 0;
    for (const each of group) {
      if (each.isNew) waitMs = Math.max(waitMs, each.joinedAtMs - each.item.readyAtMs);
      each.isNew = false;
    }
    this.#listener.ran?.({ size: group.length, waitMs, runMs: this.#clock.now() - sinceMs, cause: "step" });
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
