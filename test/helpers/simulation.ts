/** A simulated clock and simulated devices: time passes only when the test advances it. */

import type { Tensor } from "../../src/author/tensor.ts";
import type { Clock } from "../../src/base/clock.ts";
import { SconceError } from "../../src/base/errors.ts";
import { Batcher } from "../../src/engine/batching/batcher.ts";
import type { BatchItem, BatchListener } from "../../src/engine/batching/batching.ts";
import { LatencyTarget } from "../../src/engine/batching/latency-target.ts";
import type { BatchRun } from "../../src/engine/engine.ts";
import type { PartSink, Runner } from "../../src/engine/runner.ts";
import { settle } from "./loop-turns.ts";

export class SimulatedClock implements Clock {
  #now = 0;
  #timers: { atMs: number; callback: () => void }[] = [];
  readonly #turnMs: number;

  /**
   * Makes a clock that shows 0 ms. @param turnMs interval at which the event loop checks its timers; 0 for an event
   * loop that is idle
   */
  constructor(turnMs = 0) {
    this.#turnMs = turnMs;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { atMs: this.#now + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  get nextAtMs(): number {
    let next = Infinity;
    for (const { atMs } of this.#timers) if (atMs < next) next = atMs;
    return next;
  }

  /** Advances the time to `atMs`, and runs the timers on the way in order. */
  async advanceTo(atMs: number): Promise<void> {
    while (this.nextAtMs <= atMs) {
      const [next] = this.#timers.toSorted((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      const dueAtMs = this.#turnMs === 0 ? next.atMs : Math.ceil(next.atMs / this.#turnMs) * this.#turnMs;
      this.#now = Math.max(this.#now, dueAtMs);
      next.callback();
      await settle();
    }
    this.#now = Math.max(this.#now, atMs);
  }

  /** Advances the time until no timer is left. */
  async drain(): Promise<void> {
    await settle();
    while (this.nextAtMs < Infinity) await this.advanceTo(this.nextAtMs);
  }
}

export interface Item extends BatchItem {
  readonly id: number;
  /** The size of the padded dimension; undefined without one. */
  readonly length?: number;
  readonly isBad?: boolean;
}

export interface Batch {
  readonly items: readonly Item[];
  readonly givenAtMs: number;
  startedAtMs: number;
  endedAtMs: number;
}

const outOfMemory = new SconceError("out_of_memory", "too little memory");

/**
 * A simulated device that runs one batch at a time, each for `durationMs`. A batch with a bad item fails, and so does
 * a batch that does not fit in memory.
 */
export class SimulatedRunner implements Runner {
  readonly batches: Batch[] = [];
  /** The item of each list of tensors. */
  readonly #items: ReadonlyMap<readonly Tensor[], Item>;
  readonly #clock: SimulatedClock;
  readonly #durationMs: (size: number, items: readonly Item[]) => number;
  /** The largest batch that fits in memory, by the shape of its items. */
  readonly #fits: (key: string) => number;
  #busyUntilMs = 0;
  /** Receiver of the parts of the newest batch. */
  parts: PartSink | undefined;

  constructor(
    clock: SimulatedClock,
    items: ReadonlyMap<readonly Tensor[], Item>,
    durationMs: (size: number, items: readonly Item[]) => number,
    fits: (key: string) => number,
  ) {
    this.#clock = clock;
    this.#items = items;
    this.#fits = fits;
    this.#durationMs = durationMs;
  }

  run(tensors: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]> {
    const items = tensors.flatMap((each) => this.#items.get(each) ?? []);
    this.parts = parts;
    const now = this.#clock.now();
    const startedAtMs = Math.max(now, this.#busyUntilMs);
    const endedAtMs = startedAtMs + this.#durationMs(items.length, items);
    this.#busyUntilMs = endedAtMs;
    this.batches.push({ items, givenAtMs: now, startedAtMs, endedAtMs });
    return new Promise((resolve, reject) => {
      this.#clock.after(endedAtMs - now, () => {
        if (items.length > this.#fits(items[0]?.key ?? "")) reject(outOfMemory);
        else if (items.some(({ isBad }) => isBad)) reject(new Error("bad item"));
        else resolve([tensorOf(items.map(({ id }) => id))]);
      });
    });
  }

  settle(): void {}
  async setThreads(): Promise<void> {}
  async dispose(): Promise<void> {}
}

function tensorOf(values: readonly number[]): Tensor {
  return { dtype: "float32", shape: [values.length], data: Float32Array.from(values) };
}

/** A batcher on simulated devices. It records what the batcher reports. */
export class Simulation implements BatchListener<Item> {
  readonly clock: SimulatedClock;
  readonly runners: readonly SimulatedRunner[];
  readonly batcher: Batcher<Item>;
  readonly target: LatencyTarget | undefined;
  /** Ids of the items that succeeded, in the order of their reports. */
  readonly done: number[] = [];
  /** For each dispatched batch, the number of items that had ended before. */
  readonly reportedBefore: number[] = [];
  readonly lost: number[] = [];
  /** The batches that succeeded. */
  readonly runs: BatchRun[] = [];
  /** The maximum batch size after each reduction, which follows a batch that did not fit in memory. */
  readonly shrinks: number[] = [];
  readonly finishedAtMs = new Map<number, number>();
  /** Predictions whose clients have left. */
  readonly left = new Set<unknown>();
  /** Called for each dispatched batch, before it starts. */
  onDispatched = () => {};
  isHeard = () => true;
  readonly #items = new Map<readonly Tensor[], Item>();
  #nextId = 0;

  constructor(options: {
    readonly maxBatchSize: number;
    readonly runners?: number;
    readonly maxQueueDelayMs?: number;
    readonly latencyTargetMs?: number | undefined;
    /** Batch times of the warm-up, by size. */
    readonly measured?: readonly (readonly [size: number, ms: number])[];
    readonly durationMs?: (size: number, items: readonly Item[]) => number;
    readonly fits?: number | ((key: string) => number);
    /** Most items in the batches of all runners together that fit in memory. */
    readonly fitsTogether?: number;
    readonly turnMs?: number;
  }) {
    this.clock = new SimulatedClock(options.turnMs);
    const { fits = Infinity } = options;
    const durationMs = options.durationMs ?? (() => 10);
    const mostOf = typeof fits === "number" ? () => fits : fits;
    const free = () => (options.fitsTogether ?? Infinity) - this.#othersRunning();
    this.runners = Array.from(
      { length: options.runners ?? 1 },
      () => new SimulatedRunner(this.clock, this.#items, durationMs, (key) => Math.min(mostOf(key), free())),
    );
    this.target =
      options.latencyTargetMs === undefined
        ? undefined
        : new LatencyTarget(options.latencyTargetMs, new Map(options.measured));
    const { maxBatchSize, maxQueueDelayMs = 0 } = options;
    const { clock, runners, target: latencyTarget } = this;
    this.batcher = new Batcher({ runners, maxBatchSize, maxQueueDelayMs, latencyTarget, clock }, this);
  }

  get batches(): readonly Batch[] {
    return this.runners.flatMap((runner) => runner.batches).sort((a, b) => a.startedAtMs - b.startedAtMs);
  }

  /**
   * Adds items that are ready at the current time, for the prediction `lane`. @param items their number, the length of
   * each, or other properties of each
   */
  add(lane: object, items: number | readonly (number | Partial<Item>)[], options: Partial<Item> = {}): Item[] {
    const each = typeof items === "number" ? Array.from({ length: items }, () => ({})) : items;
    const added = each.map((properties) => {
      const own = { ...options, ...(typeof properties === "number" ? { length: properties } : properties) };
      const item: Item = {
        lane,
        id: this.#nextId++,
        key: "",
        padded: new Map(own.length === undefined ? [] : [["length", own.length]]),
        tensors: [tensorOf([0])],
        readyAtMs: this.clock.now(),
        ahead: 0,
        ...own,
      };
      this.#items.set(item.tensors, item);
      this.batcher.submit(item);
      return item;
    });
    this.batcher.pump();
    return added;
  }

  /** Removes the queued items of a prediction whose client has left. */
  cancel(lane: object): readonly Item[] {
    this.left.add(lane);
    return this.batcher.removeUnneeded();
  }

  /** Count of items in batches that run now and do not end now. */
  #othersRunning(): number {
    const now = this.clock.now();
    const running = this.batches.filter(({ startedAtMs, endedAtMs }) => startedAtMs <= now && endedAtMs > now);
    return running.reduce((sum, { items }) => sum + items.length, 0);
  }

  isNeeded({ lane }: Item): boolean {
    return !this.left.has(lane);
  }

  dispatched(): void {
    this.reportedBefore.push(this.done.length + this.lost.length);
    this.onDispatched();
  }

  part(): void {}

  finished(items: readonly Item[], [ids]: readonly Tensor[]): void {
    this.done.push(...Array.from(ids?.data ?? [], Number));
    for (const { id } of items) this.finishedAtMs.set(id, this.clock.now());
  }

  ran(run: BatchRun): void {
    this.runs.push(run);
  }

  shrunk(maxBatchSize: number): void {
    this.shrinks.push(maxBatchSize);
  }

  failed(item: Item): void {
    this.lost.push(item.id);
  }
}
