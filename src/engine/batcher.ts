/** The batching rule: which items go through the model together, and when. Pure logic over a clock and runners. */
import { FairQueue, type Group, type Queued } from "./fair-queue.ts";
import type { LatencyTarget, Waiting } from "./latency-target.ts";

/** Time, so that tests can hold it. */
export interface Clock {
  now(): number;
  /** Calls back after `ms`; the result cancels. */
  after(ms: number, callback: () => void): () => void;
}

/** Runs one batch at a time; a second one given while it runs is begun as soon as the first ends. */
export interface BatchRunner<T, R> {
  run(items: readonly T[]): Promise<R>;
}

/** Whom the batcher tells what became of an item. Every item added and not removed is told of exactly once. */
export interface BatchListener<T, R> {
  dispatched(items: readonly T[]): void;
  /** The batch ran: `result` holds a row for each item, in order. */
  finished(items: readonly T[], result: R): void;
  /** The item failed by itself in a batch of its own, or for a reason that would fail any batch. */
  failed(item: T, cause: unknown): void;
  /** From now on no batch has more items than this: a larger one did not fit into the device's memory. */
  shrunk(maxBatchSize: number): void;
}

export interface BatcherOptions<T, R> {
  readonly runners: readonly BatchRunner<T, R>[];
  readonly maxBatchSize: number;
  /** How long a ready item may wait for a fuller batch while a runner is free. */
  readonly maxQueueDelayMs: number;
  /** Chooses batches below `maxBatchSize`, and how long a ready item may wait for a fuller one instead of `maxQueueDelayMs`. */
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly clock: Clock;
  readonly listener: BatchListener<T, R>;
  /** Whether a batch that failed for `cause` is worth running again in halves. */
  readonly isWorthHalving: (cause: unknown) => boolean;
  /** Whether it failed for want of memory, so that others of that size would too. */
  readonly isOutOfMemory: (cause: unknown) => boolean;
}

/** Batches that a runner is given at once: one that runs, and the next. */
const MAX_IN_FLIGHT = 2;
/**
 * How long before a batch ends the next one is committed, at the latest: the event loop may be busy with something else for a while. With
 * 5 ms a network whose batches take 13 ms was served 6 % more slowly.
 */
const LEAD_MS = 20;

interface Slot<T, R> {
  readonly runner: BatchRunner<T, R>;
  /** Sizes of the batches given to the runner that have not ended: the first runs, a second one is committed. */
  readonly inFlight: number[];
  /** When the batch that runs was begun. */
  beganAtMs: number;
  /** How long the last batch ran. */
  lastMs: number;
}

/**
 * When a runner is free and items are ready, up to `maxBatchSize` of them are dispatched at once, in turn over the lanes;
 * they wait for more only if a delay was asked for. While a runner is busy its next batch is committed ahead only when that
 * is full, and late, so that what comes meanwhile has its turn. So an idle server adds no wait and a busy one never lets the device idle.
 * A latency target decides what full is, and what is worth waiting for.
 */
export class Batcher<T extends Queued, R> {
  readonly #options: BatcherOptions<T, R>;
  readonly #queue = new FairQueue<T>();
  readonly #slots: readonly Slot<T, R>[];
  /** Halves of batches that failed. They go first and are not mixed with others, so that a bad item is found in log2 runs. */
  #halves: T[][] = [];
  #cancelTimer: (() => void) | undefined;
  /** When busy runners are looked at again; Infinity when nothing waits for that. */
  #commitAtMs = Infinity;
  #isHurried = false;
  #maxBatchSize: number;

  constructor(options: BatcherOptions<T, R>) {
    this.#options = options;
    this.#maxBatchSize = options.maxBatchSize;
    this.#slots = options.runners.map((runner) => ({ runner, inFlight: [], beganAtMs: 0, lastMs: 0 }));
  }

  /** Most items of a batch; less than was asked for once the device had too little memory for that. */
  get maxBatchSize(): number {
    return this.#maxBatchSize;
  }

  /** Items that wait for a batch. */
  get length(): number {
    // Asked for with every item, and halves are rare.
    if (this.#halves.length === 0) return this.#queue.length;
    return this.#queue.length + this.#halves.reduce((sum, half) => sum + half.length, 0);
  }

  /** Bytes of the items that wait for a batch. */
  get bytes(): number {
    if (this.#halves.length === 0) return this.#queue.bytes;
    return this.#queue.bytes + this.#halves.flat().reduce((sum, item) => sum + item.bytes, 0);
  }

  /** Whether no runner takes another batch now. */
  get isSaturated(): boolean {
    const now = this.#options.clock.now();
    return this.#slots.every((slot) => slot.inFlight.length > 0 && commitAtMs(slot) > now);
  }

  /** Lets a ready item wait for its batch. It is not dispatched before `pump()`, so that what comes together goes together. */
  add(item: T): void {
    this.#queue.add(item);
    this.#options.latencyTarget?.arrived(item.key, item.readyAtMs);
  }

  /** Takes the waiting items of a lane away; those that run now run on. */
  remove(lane: object): T[] {
    const halves = this.#halves.flatMap((half) => half.filter((item) => item.lane === lane));
    if (halves.length > 0) {
      this.#halves = this.#halves
        .map((half) => half.filter((item) => item.lane !== lane))
        .filter((half) => half.length > 0);
    }
    return [...halves, ...this.#queue.remove(lane)];
  }

  /** From now on no item waits for a fuller batch: no others will come. */
  hurry(): void {
    this.#isHurried = true;
    this.pump();
  }

  /** Dispatches all that the rule allows now. */
  pump(): void {
    for (const slot of this.#slots) {
      if (slot.inFlight.length === 0) this.#dispatch(slot, this.#halves.shift() ?? this.#due());
    }
    // Halves wait for a free runner, which there would never be while full batches are committed ahead.
    if (this.#halves.length > 0 || this.#queue.length < this.#leastFull) return;
    // The one that is likely to be free first.
    const now = this.#options.clock.now();
    for (const slot of this.#slots.toSorted((a, b) => commitAtMs(a) - commitAtMs(b))) {
      if (commitAtMs(slot) <= now) this.#dispatch(slot, this.#full(slot));
      else this.#commitLater(commitAtMs(slot), now);
    }
  }

  #commitLater(atMs: number, now: number): void {
    // A timer that is later stays: who looks too soon finds nothing to do.
    if (atMs >= this.#commitAtMs) return;
    this.#commitAtMs = atMs;
    this.#options.clock.after(atMs - now, () => {
      this.#commitAtMs = Infinity;
      this.pump();
    });
  }

  /** The fewest items that can be more than a full batch needs. */
  get #leastFull(): number {
    return this.#options.latencyTarget === undefined ? this.#maxBatchSize : 2;
  }

  /** The next batch for a free runner; sets the timer when all that is ready may still wait. */
  #due(): T[] | undefined {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { clock } = this.#options;
    const now = clock.now();
    let soonest = Infinity;
    for (const group of this.#queue.groups()) {
      const size = this.#sizeOf(group, now);
      const dueAtMs = this.#dueAtMs(group, size);
      if (dueAtMs <= now) return this.#queue.take(group, size);
      soonest = Math.min(soonest, dueAtMs);
    }
    if (soonest < Infinity) this.#cancelTimer = clock.after(soonest - now, () => this.pump());
    return undefined;
  }

  /** A full batch for a busy runner, unless one that is not full has its turn: that waits for the runner to be free. */
  #full(slot: Slot<T, R>): T[] | undefined {
    const now = this.#options.clock.now();
    for (const group of this.#queue.groups()) {
      const size = this.#sizeOf(group, this.#freeAtMs(slot));
      if (this.#isFull(group, size)) return this.#queue.take(group, size);
      if (this.#dueAtMs(group, size) <= now) return undefined;
    }
    return undefined;
  }

  /** How many items a batch of `group` may have that begins at `beginMs`. */
  #sizeOf(group: Group<T>, beginMs: number): number {
    const { latencyTarget, clock } = this.#options;
    return latencyTarget?.sizeOf(this.#waiting(group), clock.now(), beginMs) ?? this.#maxBatchSize;
  }

  /** Whether a batch of `size` gets no larger by waiting. */
  #isFull(group: Group<T>, size: number): boolean {
    return group.length > size || group.length >= this.#maxBatchSize;
  }

  /** When a batch of `group` may be dispatched: at once, unless it is not full and may wait. */
  #dueAtMs(group: Group<T>, size: number): number {
    const { maxQueueDelayMs, latencyTarget, clock } = this.#options;
    if (this.#isHurried || this.#isFull(group, size)) return -Infinity;
    if (latencyTarget !== undefined) return latencyTarget.waitUntilMs(this.#waiting(group), clock.now());
    return maxQueueDelayMs === 0 ? -Infinity : group.oldestReadyAtMs() + maxQueueDelayMs;
  }

  #waiting(group: Group<T>): Waiting {
    const ready = Math.min(group.length, this.#maxBatchSize);
    return { key: group.key, ready, oldestAtMs: group.oldestReadyAtMs() };
  }

  /** When the batch that runs is expected to end. */
  #freeAtMs({ inFlight: [size = 0], beganAtMs }: Slot<T, R>): number {
    const { latencyTarget, clock } = this.#options;
    return Math.max(clock.now(), beganAtMs + (latencyTarget?.times.ms(size) ?? 0));
  }

  #dispatch(slot: Slot<T, R>, batch: T[] | undefined): void {
    if (batch === undefined) return;
    slot.inFlight.push(batch.length);
    if (slot.inFlight.length === 1) slot.beganAtMs = this.#options.clock.now();
    this.#options.listener.dispatched(batch);
    slot.runner.run(batch).then(
      (result) => {
        const ms = this.#ended(slot);
        this.#options.latencyTarget?.ran(batch.length, ms);
        // The device first: what follows for these items can wait until it is busy again.
        this.pump();
        this.#options.listener.finished(batch, result);
      },
      (cause: unknown) => {
        this.#ended(slot);
        if (batch.length > 1 && this.#options.isWorthHalving(cause)) {
          if (this.#options.isOutOfMemory(cause)) this.#shrinkBelow(batch.length);
          const middle = batch.length >> 1;
          this.#halves.push(batch.slice(0, middle), batch.slice(middle));
          this.pump();
        } else {
          this.pump();
          for (const item of batch) this.#options.listener.failed(item, cause);
        }
      },
    );
  }

  /** Batches of `size` items do not fit into memory; those that were committed before that was known fail too, and are not news. */
  #shrinkBelow(size: number): void {
    if (size > this.#maxBatchSize) return;
    while (this.#maxBatchSize >= size) this.#maxBatchSize >>= 1;
    this.#options.listener.shrunk(this.#maxBatchSize);
  }

  /** @returns how long the batch ran, in milliseconds */
  #ended(slot: Slot<T, R>): number {
    slot.inFlight.shift();
    const now = this.#options.clock.now();
    slot.lastMs = now - slot.beganAtMs;
    // A batch that was committed begins now.
    slot.beganAtMs = now;
    return slot.lastMs;
  }
}

/** When a runner is given the batch after the one that runs; Infinity when it has that already. */
function commitAtMs({ inFlight, beganAtMs, lastMs }: Slot<unknown, unknown>): number {
  return inFlight.length >= MAX_IN_FLIGHT ? Infinity : beganAtMs + lastMs - LEAD_MS;
}
