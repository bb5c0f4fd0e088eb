/** Decides which items form a batch, and when the batch starts. */
import type { Clock } from "../../base/clock.ts";
import type { BatchCause } from "../../base/labels.ts";
import { BatchQueue } from "./batch-queue.ts";
import { BatchSlot, type Run } from "./batch-slot.ts";
import type { Queued } from "./fair-queue.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import type { LatencyTarget } from "./latency-target.ts";
import { PaddedBytes } from "./padded-bytes.ts";
import { type NextBatch, WaitingItems } from "./waiting-items.ts";

/** Receives exactly one result for each queued item; removed items get none. */
export interface BatchListener<T, R> {
  /** The items leave the queue, and their batch starts. Items of a failed batch may be dispatched again. */
  dispatched(items: readonly T[], cause: BatchCause): void;
  finished(items: readonly T[], result: R): void;
  /** The item failed alone in its batch, or with an error that smaller batches cannot avoid. */
  failed(item: T, cause: unknown): void;
  /** A batch did not fit into the device's memory. For a time, batches of its shape have at most this many items. */
  shrunk(maxBatchSize: number): void;
}

export interface BatcherOptions<T, R> {
  readonly runners: readonly Run<T, R>[];
  readonly maxBatchSize: number;
  /** Limit in bytes for the padded inputs of a batch. A single item may have more. */
  readonly maxPaddedBytes?: number | undefined;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly clock: Clock;
  readonly listener: BatchListener<T, R>;
  /**
   * Whether all results of this process have been sent. An item that may crash the process waits for that. The owner
   * calls `pump` once they are sent.
   */
  readonly isHeard?: (() => boolean) | undefined;
  /** Whether a batch that failed for `cause` runs again in parts. */
  readonly isWorthHalving: (cause: unknown) => boolean;
  /** Whether the device had too little memory, so that other batches of this size fail too. */
  readonly isOutOfMemory: (cause: unknown) => boolean;
  /** Whether a client needs the result of the item. Items of a failed batch that nobody needs do not run again. */
  readonly isNeeded: (item: T) => boolean;
}

/**
 * Gives each free runner up to `maxBatchSize` items at once, or after `maxQueueDelayMs`. Predictions take turns.
 * - A busy runner gets its next batch early only if the batch is full.
 * - A failed batch runs again in parts, until the bad item fails alone.
 * - An item that may have crashed an engine process runs alone, while all other runners are idle.
 */
export class Batcher<T extends Queued, R> {
  readonly #options: BatcherOptions<T, R>;
  readonly #waiting: WaitingItems<T>;
  readonly #alone = new BatchQueue<T>();
  #isAloneRunning = false;
  #isPumping = false;
  #mustPumpAgain = false;
  readonly #slots: readonly BatchSlot<T, R>[];
  #timerAtMs = Infinity;
  readonly #sizes: FittingSizes;

  constructor(options: BatcherOptions<T, R>) {
    this.#options = options;
    this.#sizes = new FittingSizes(options.maxBatchSize);
    const { clock, latencyTarget } = options;
    const mostOf = (key: string) => Math.min(this.#sizes.of(key, clock.now()), latencyTarget?.limit ?? Infinity);
    this.#waiting = new WaitingItems({ ...options, mostOf });
    this.#slots = options.runners.map((run) => new BatchSlot(run));
  }

  get length(): number {
    return this.#waiting.length + this.#alone.length;
  }

  get isSaturated(): boolean {
    const now = this.#options.clock.now();
    return this.#isReserved || this.#slots.every((slot) => !slot.isIdle && slot.commitAtMs > now);
  }

  /** Longest time in milliseconds since a running batch began or last yielded partial outputs; 0 if no batch runs. */
  get runningForMs(): number {
    const now = this.#options.clock.now();
    return Math.max(...this.#slots.map((slot) => slot.silentForMs(now)));
  }

  yielded(batch: readonly T[]): void {
    const now = this.#options.clock.now();
    this.#slots.some((slot) => slot.yielded(batch, now));
  }

  /**
   * Queues a ready item without dispatching it. `pump()` dispatches, so that items of one turn of the event loop share
   * a batch.
   */
  add(item: T): void {
    if (item.isAlone) this.#alone.add([item]);
    else this.#waiting.add(item);
  }

  /** Removes the queued items of a prediction. Its running items continue. */
  remove(lane: object): T[] {
    const alone = this.#alone.remove(lane);
    const items = [...alone, ...this.#waiting.remove(lane)];
    // No batch starts while an item waits to run alone, so its removal may let other batches start.
    if (alone.length > 0) this.pump();
    return items;
  }

  /** Starts every batch that may start now. */
  pump(): void {
    // The listener may add items in `dispatched`, before the dispatched batch has started. Batches start in order.
    this.#mustPumpAgain = this.#isPumping;
    if (this.#isPumping) return;
    this.#isPumping = true;
    do {
      this.#mustPumpAgain = false;
      this.#startBatches();
    } while (this.#mustPumpAgain);
    this.#isPumping = false;
  }

  #startBatches(): void {
    const waiting = this.#waiting;
    const [first] = this.#slots;
    if (this.#isReserved) {
      if (first === undefined || this.#slots.some((slot) => !slot.isIdle)) return;
      this.#isAloneRunning = true;
      const items = this.#alone.shift();
      this.#dispatch(first, items && { items, cause: "alone" });
      return;
    }
    const now = this.#options.clock.now();
    const free = this.#slots.filter((slot) => slot.isIdle);
    if (free.length > 0) {
      for (const slot of free) this.#dispatch(slot, waiting.forFreeRunner(now));
      this.#pumpAt(waiting.dueAtMs, now);
    }
    if (!waiting.mayCommit) return;
    // The next batch goes to the runner that becomes free first.
    for (const slot of this.#slots.toSorted((a, b) => a.freeAtMs - b.freeAtMs)) {
      const atMs = slot.commitAtMs;
      if (atMs === Infinity) continue;
      if (atMs > now) {
        this.#pumpAt(atMs, now);
        break;
      }
      this.#dispatch(slot, waiting.forBusyRunner(now));
    }
  }

  /**
   * Whether a batch runs alone, or waits until all runners are idle. No other batch starts meanwhile. Until all results
   * are sent, other batches still start, because a receiver may have stopped.
   */
  get #isReserved(): boolean {
    return this.#isAloneRunning || (this.#alone.length > 0 && this.#options.isHeard?.() !== false);
  }

  #pumpAt(atMs: number, now: number): void {
    // Timers are not cancelled: a timer that fires too early finds nothing to dispatch.
    if (atMs >= this.#timerAtMs || atMs <= now) return;
    this.#timerAtMs = atMs;
    this.#options.clock.after(atMs - now, () => {
      this.#timerAtMs = Infinity;
      this.pump();
    });
  }

  #dispatch(slot: BatchSlot<T, R>, next: NextBatch<T> | undefined): void {
    if (next === undefined) return;
    const { clock, listener } = this.#options;
    const { items: batch, cause } = next;
    slot.given(batch, clock.now());
    listener.dispatched(batch, cause);
    slot.run(batch).then(
      (result) => {
        const wasReserved = this.#isReserved;
        const ms = this.#ended(slot);
        this.#options.latencyTarget?.ran(batch.length, ms);
        this.#pumpAnd(() => listener.finished(batch, result), wasReserved);
      },
      (cause: unknown) => {
        const wasReserved = this.#isReserved;
        this.#ended(slot);
        this.#failed(batch, cause, wasReserved);
      },
    );
  }

  #ended(slot: BatchSlot<T, R>): number {
    this.#isAloneRunning = false;
    return slot.ended(this.#options.clock.now());
  }

  /**
   * Starts the next batch before the listener gets results, so that the device does not wait. With `isReportedFirst`,
   * results come first, because the next item may crash this process.
   */
  #pumpAnd(report: () => void, isReportedFirst: boolean): void {
    if (isReportedFirst) report();
    this.pump();
    if (!isReportedFirst) report();
  }

  #failed(batch: T[], cause: unknown, wasReserved: boolean): void {
    const { listener, isNeeded, isWorthHalving, isOutOfMemory } = this.#options;
    const hadNoMemory = isOutOfMemory(cause);
    const largest = hadNoMemory ? this.#largestBeside(batch) : undefined;
    const isFinal = largest === undefined && (batch.length === 1 || !isWorthHalving(cause));
    // Nobody waits for the other items any more, so they do not run again.
    const needed = isFinal ? batch : batch.filter(isNeeded);
    if (hadNoMemory && !isFinal) {
      this.#shrinkBelow(largest ?? batch);
      // Beside a larger batch the lack of memory says nothing about this batch, which runs again alone.
      if (largest !== undefined && (largest !== batch || batch.length === 1)) this.#alone.add(needed);
      else this.#waiting.addParts(halves(needed));
    } else if (!isFinal) {
      this.#waiting.addParts(partsOf(needed));
    }
    this.#pumpAnd(() => {
      for (const item of batch) if (isFinal || !needed.includes(item)) listener.failed(item, cause);
    }, wasReserved);
  }

  /** The largest of a failed batch and the batches that run on other runners; undefined if no other batch runs. */
  #largestBeside(batch: readonly T[]): readonly T[] | undefined {
    const others = this.#slots.flatMap(({ running }) => (running === undefined ? [] : [running]));
    if (others.length === 0) return undefined;
    return others.reduce((largest, other) => (bytesOf(other) > bytesOf(largest) ? other : largest), batch);
  }

  #shrinkBelow(batch: readonly T[]): void {
    const { clock, listener } = this.#options;
    const size = this.#sizes.tooLarge(batch[0]?.key ?? "", batch.length, clock.now());
    if (size !== undefined) listener.shrunk(size);
  }
}

/** Bytes of the padded inputs of a batch; its count of items if their tensors are unknown. */
function bytesOf(batch: readonly Queued[]): number {
  const padded = new PaddedBytes();
  for (const { tensors } of batch) padded.join(tensors ?? [], Infinity);
  return padded.bytes || batch.length;
}

/**
 * Splits a failed batch in two, between predictions if it has several: a bad item should soon affect only its own
 * prediction.
 */
function partsOf<T extends Queued>(batch: readonly T[]): T[][] {
  const lanes = [...Map.groupBy(batch, ({ lane }) => lane).values()];
  return lanes.length === 1 ? halves(batch) : halves(lanes).map((part) => part.flat());
}

function halves<T>(whole: readonly T[]): [T[], T[]] {
  const middle = whole.length >> 1;
  return [whole.slice(0, middle), whole.slice(middle)];
}
