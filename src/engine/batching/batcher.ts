/** Starts batches of the items that `ItemQueue` chooses, and runs failed batches again in parts. */
import type { Tensor } from "../../author/tensor.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { codedError, hasCode } from "../../base/errors.ts";
import type { Runner } from "../runner.ts";
import type { BatchItem, Batching, BatchingOptions, BatchListener } from "./batching.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { ItemQueue, type NextBatch, PaddedBytes } from "./item-queue.ts";
import { StepBatcher } from "./step-batcher.ts";

/** Forms batches for these runners: of steps if the model has `step`, otherwise of whole items. */
export function openBatching<T extends BatchItem>(options: BatchingOptions, listener: BatchListener<T>): Batching<T> {
  const steppers = options.runners.flatMap(({ stepper }) => stepper ?? []);
  return steppers.length === 0 ? new Batcher(options, listener) : new StepBatcher(options, listener, steppers);
}

/**
 * Gives each free runner up to `maxBatchSize` items at once, or after `maxQueueDelayMs`.
 * - A busy runner gets its next batch early only if the batch is full.
 * - A failed batch runs again in parts, until the bad item fails alone.
 * - An item that may have crashed an engine process runs alone, while all other runners are idle.
 */
export class Batcher<T extends BatchItem> implements Batching<T> {
  readonly #options: BatchingOptions;
  readonly #listener: BatchListener<T>;
  readonly #clock: Clock;
  readonly #queue: ItemQueue<T>;
  readonly #slots: readonly Slot<T>[];
  readonly #sizes: FittingSizes;
  #isAloneRunning = false;
  #isPumpScheduled = false;
  #timerAtMs = Infinity;

  constructor(options: BatchingOptions, listener: BatchListener<T>) {
    const { runners, maxBatchSize, latencyTarget, clock = systemClock } = options;
    this.#options = options;
    this.#listener = listener;
    this.#clock = clock;
    this.#sizes = new FittingSizes(maxBatchSize);
    const mostOf = (key: string) => Math.min(this.#sizes.of(key, clock.now()), latencyTarget?.limit ?? Infinity);
    this.#queue = new ItemQueue({ ...options, mostOf });
    this.#slots = runners.map((runner) => new Slot(runner));
  }

  get length(): number {
    return this.#queue.length;
  }

  get runningForMs(): number {
    const now = this.#clock.now();
    return Math.max(...this.#slots.map((slot) => slot.silentForMs(now)));
  }

  submit(item: T): void {
    const { runners, maxBatchSize } = this.#options;
    runners[0]?.checkItem?.(item.tensors);
    this.#queue.add(item);
    if (this.#queue.length >= maxBatchSize) {
      // `settle` resolves the promises of finished batches now. The event loop may first read many items from the
      // socket.
      if (this.#isSaturated) for (const runner of runners) runner.settle();
      else this.pump();
    }
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.pump();
    });
  }

  removeUnneeded(): T[] {
    const wasReserved = this.#isReserved;
    const items = this.#queue.remove((item) => !this.#listener.isNeeded(item));
    // No batch starts while an item waits to run alone, so its removal may let other batches start.
    if (wasReserved && !this.#isReserved) this.pump();
    return items;
  }

  pump(): void {
    const queue = this.#queue;
    const [first] = this.#slots;
    if (this.#isReserved) {
      if (first === undefined || this.#slots.some((slot) => !slot.isIdle)) return;
      this.#isAloneRunning = true;
      this.#dispatch(first, { items: queue.takeAlone(), cause: "alone" });
      return;
    }
    const now = this.#clock.now();
    const free = this.#slots.filter((slot) => slot.isIdle);
    if (free.length > 0) {
      for (const slot of free) this.#dispatch(slot, queue.forFreeRunner(now));
      this.#pumpAt(queue.dueAtMs, now);
    }
    if (!queue.mayCommit) return;
    // The next batch goes to the runner that becomes free first.
    for (const slot of this.#slots.toSorted((a, b) => a.freeAtMs - b.freeAtMs)) {
      const atMs = slot.commitAtMs;
      if (atMs === Infinity) continue;
      if (atMs > now) {
        this.#pumpAt(atMs, now);
        break;
      }
      this.#dispatch(slot, queue.forBusyRunner(now));
    }
  }

  /** Whether no batch can start now. */
  get #isSaturated(): boolean {
    const now = this.#clock.now();
    return this.#isReserved || this.#slots.every((slot) => !slot.isIdle && slot.commitAtMs > now);
  }

  /**
   * Whether a batch runs alone, or waits until all runners are idle. No other batch starts meanwhile. Until all results
   * are sent, other batches still start, because a receiver may have stopped.
   */
  get #isReserved(): boolean {
    if (this.#isAloneRunning) return true;
    return this.#queue.hasAlone && this.#listener.isHeard?.() !== false;
  }

  #pumpAt(atMs: number, now: number): void {
    // Timers are not cancelled: a timer that fires too early finds nothing to dispatch.
    if (atMs >= this.#timerAtMs || atMs <= now) return;
    this.#timerAtMs = atMs;
    this.#clock.after(atMs - now, () => {
      this.#timerAtMs = Infinity;
      this.pump();
    });
  }

  #dispatch(slot: Slot<T>, next: NextBatch<T> | undefined): void {
    if (next === undefined) return;
    const { items, cause } = next;
    const dispatchedAtMs = this.#clock.now();
    slot.given(items, dispatchedAtMs);
    this.#listener.dispatched(items, slot.wasBrief && cause !== "part" && cause !== "alone");
    this.#run(slot, items).then(
      (outputs) => {
        const wasReserved = this.#isReserved;
        const now = this.#clock.now();
        const ms = this.#ended(slot);
        this.#options.latencyTarget?.ran(items.length, ms);
        this.#pumpAnd(() => {
          let readyAtMs = Infinity;
          for (const item of items) readyAtMs = Math.min(readyAtMs, item.readyAtMs);
          const [waitMs, runMs] = [dispatchedAtMs - readyAtMs, now - dispatchedAtMs];
          this.#listener.ran?.({ size: items.length, waitMs, runMs, cause });
          this.#listener.finished(items, outputs);
        }, wasReserved);
      },
      (error: unknown) => {
        const wasReserved = this.#isReserved;
        this.#ended(slot);
        this.#failed(items, error, wasReserved);
      },
    );
  }

  #run(slot: Slot<T>, items: readonly T[]): Promise<readonly Tensor[]> {
    const listener = this.#listener;
    const tensors = items.map(({ tensors }) => tensors);
    return slot.runner.run(tensors, {
      get isOver() {
        return !items.some((item) => listener.isNeeded(item));
      },
      part: (rows) => {
        slot.yielded(this.#clock.now());
        listener.part(items, rows);
      },
    });
  }

  #ended(slot: Slot<T>): number {
    this.#isAloneRunning = false;
    return slot.ended(this.#clock.now());
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

  #failed(batch: readonly T[], cause: unknown, wasReserved: boolean): void {
    const isOutOfMemory = hasCode(cause, "out_of_memory");
    const largest = isOutOfMemory ? this.#largestBeside(batch) : undefined;
    const cannotHalve = batch.length === 1 || hasCode(cause, "session_closed") || hasCode(cause, "canceled");
    const isFinal = largest === undefined && cannotHalve;
    // The clients of the other items have left, so these items do not run again.
    const needed = isFinal ? [] : batch.filter((item) => this.#listener.isNeeded(item));
    if (isOutOfMemory && !isFinal) {
      this.#shrinkBelow(largest ?? batch);
      // Beside a larger batch the lack of memory says nothing about this batch, which runs again alone.
      if (largest !== undefined && (largest !== batch || batch.length === 1)) this.#queue.addAlone(needed);
      else this.#queue.addParts(halves(needed));
    } else {
      this.#queue.addParts(partsOf(needed));
    }
    this.#pumpAnd(() => {
      const error = codedError(cause, "run_failed");
      for (const item of batch) if (!needed.includes(item)) this.#listener.failed(item, error);
    }, wasReserved);
  }

  /** The largest of a failed batch and the batches that run on other runners; undefined if no other batch runs. */
  #largestBeside(batch: readonly T[]): readonly T[] | undefined {
    const others = this.#slots.flatMap(({ running }) => (running === undefined ? [] : [running]));
    if (others.length === 0) return undefined;
    return others.reduce((largest, other) => (bytesOf(other) > bytesOf(largest) ? other : largest), batch);
  }

  #shrinkBelow(batch: readonly T[]): void {
    const [key, now] = [batch[0]?.key ?? "", this.#clock.now()];
    let most = this.#sizes.of(key, now);
    while (most > 1 && most >= batch.length) most >>= 1;
    if (this.#sizes.limit(key, most, now)) this.#listener.shrunk?.(most);
  }
}

/** Bytes of the padded inputs of a batch. */
function bytesOf(batch: readonly BatchItem[]): number {
  const padded = new PaddedBytes();
  for (const { tensors } of batch) padded.join(tensors, Infinity);
  return padded.bytes;
}

/**
 * Splits a failed batch in two, between predictions if it has several: a bad item should soon affect only its own
 * prediction.
 */
function partsOf<T extends BatchItem>(batch: readonly T[]): (readonly T[])[] {
  const lanes = [...Map.groupBy(batch, ({ lane }) => lane).values()];
  return lanes.length === 1 ? halves(batch) : halves(lanes).map((part) => part.flat());
}

function halves<T>(whole: readonly T[]): [T[], T[]] {
  const middle = whole.length >> 1;
  return [whole.slice(0, middle), whole.slice(middle)];
}

/** A runner has at most a running batch and a committed batch, which runs next. */
const MAX_IN_FLIGHT = 2;
/**
 * A runner gets its next batch this many milliseconds before the expected end of the running batch, so that the device
 * does not wait for the event loop. Items cannot join the batch afterwards.
 */
const LEAD_MS = 20;

/** The batches of one runner: the running batch, and the committed one, which the runner got ahead of time. */
class Slot<T> {
  readonly runner: Runner;
  /** The running batch, then the committed batch, which runs next. */
  readonly #inFlight: (readonly T[])[] = [];
  #beganAtMs = 0;
  /** When the running batch last yielded partial outputs. */
  #yieldedAtMs = 0;
  #lastMs = 0;

  constructor(runner: Runner) {
    this.runner = runner;
  }

  get isIdle(): boolean {
    return this.#inFlight.length === 0;
  }

  get running(): readonly T[] | undefined {
    return this.#inFlight[0];
  }

  /** Expected end of the running batch, if it takes as long as the batch before. */
  get freeAtMs(): number {
    return this.#beganAtMs + this.#lastMs;
  }

  /** Whether the last batch took less than a millisecond. */
  get wasBrief(): boolean {
    return this.#lastMs > 0 && this.#lastMs < 1;
  }

  /** When to hand over the next batch ahead of time; Infinity once it is handed over. */
  get commitAtMs(): number {
    return this.#inFlight.length >= MAX_IN_FLIGHT ? Infinity : this.freeAtMs - LEAD_MS;
  }

  /** Milliseconds since the running batch began or last yielded partial outputs; 0 without a batch. */
  silentForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - Math.max(this.#beganAtMs, this.#yieldedAtMs);
  }

  /** Notes that a batch yielded partial outputs. */
  yielded(nowMs: number): void {
    this.#yieldedAtMs = nowMs;
  }

  given(batch: readonly T[], nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#inFlight.push(batch);
  }

  /** Notes the end of the running batch. @returns its milliseconds */
  ended(nowMs: number): number {
    this.#inFlight.shift();
    this.#lastMs = nowMs - this.#beganAtMs;
    this.#beganAtMs = nowMs;
    return this.#lastMs;
  }
}
