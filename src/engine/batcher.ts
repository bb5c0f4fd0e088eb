/** The batching rule: which items go through the model together, and when. Pure logic over a clock, runners and a policy. */
import type { Clock } from "../base/clock.ts";
import type { BatchCause } from "../base/labels.ts";
import type { BatchPolicy, Waiting } from "./batch-policy.ts";
import { BatchSlot, type Run } from "./batch-slot.ts";
import { FairQueue, type Group, type Queued } from "./fair-queue.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { LateItems } from "./late-items.ts";
import { LeadTime } from "./lead-time.ts";
import { MadeBatches } from "./made-batches.ts";

/** With parts of more failed batches than this in the queue, no new batch starts. */
const MOST_PARTED = 2;
/** Largest express batch, as a share of the largest batch. */
const FEW = 1 / 4;

/** Receives exactly one result of each item, except for removed items. */
export interface BatchListener<T, R> {
  /** The batch was dispatched, or its items were deprioritised: their queue slots are free. An item may be dispatched again. */
  dispatched(items: readonly T[], cause: BatchCause): void;
  /** The batch ran: `result` holds a row for each item, in order. */
  finished(items: readonly T[], result: R): void;
  /** The item failed alone in its batch, or for a reason that would fail any batch. */
  failed(item: T, cause: unknown): void;
  /** The new batch limit of a shape, for a time: a larger batch did not fit into the device's memory. */
  shrunk(maxBatchSize: number): void;
}

export interface BatcherOptions<T, R> {
  readonly runners: readonly Run<T, R>[];
  /** Runner for small predictions that must not wait behind bulk batches; undefined where no batch may run beside the others. */
  readonly express?: Run<T, R> | undefined;
  readonly maxBatchSize: number;
  /** Limit in bytes for the padded inputs of a batch. A single item may have more. */
  readonly maxPaddedBytes?: number | undefined;
  readonly policy: BatchPolicy;
  readonly clock: Clock;
  readonly listener: BatchListener<T, R>;
  /**
   * Whether all results have left this process, which an item that runs alone may kill. After `false` the listener calls `pump` when they have.
   */
  readonly isHeard?: (() => boolean) | undefined;
  /** Whether a batch that failed for `cause` runs again in parts. */
  readonly isWorthHalving: (cause: unknown) => boolean;
  /** Whether the device had too little memory, so that other batches of this size fail too. */
  readonly isOutOfMemory: (cause: unknown) => boolean;
}

/**
 * A free runner gets up to `maxBatchSize` ready items at once, in turn over the lanes. Items wait for more items only if the policy says so. A busy
 * runner gets its next batch ahead of time only when that batch is full, and as late as possible, so that new lanes have their turn. An idle server
 * adds no wait, and a busy server never lets the device idle.
 *
 * A failed batch runs again in parts, until the bad item fails alone. Lanes with bad items go after all other lanes. An item with `isAlone` has all
 * runners to itself.
 *
 * While all runners run long batches of large predictions, a few new items go to the express runner. Otherwise they would wait for the running batch,
 * for the committed batch, and for their own large batch.
 */
export class Batcher<T extends Queued, R> {
  readonly #options: BatcherOptions<T, R>;
  readonly #queue = new FairQueue<T>();
  readonly #lead = new LeadTime();
  readonly #slots: readonly BatchSlot<T, R>[];
  readonly #express: BatchSlot<T, R> | undefined;
  /** Batches for the express runner. */
  readonly #aside = new MadeBatches<T>();
  /** False after the device ran out of memory. */
  #mayExpress = true;
  /** Parts of failed batches. Other items do not join them, so log2 runs find a bad item. */
  readonly #parts = new MadeBatches<T>();
  #wasPart = false;
  /** Items of lanes in which an item failed. */
  readonly #late = new LateItems<T>();
  readonly #alone = new MadeBatches<T>();
  #isAloneRunning = false;
  #cancelTimer: (() => void) | undefined;
  /** When the timer for busy runners fires; Infinity without a timer. */
  #commitAtMs = Infinity;
  #isHurried = false;
  /** Cause of the newest batch. */
  #cause: BatchCause = "full";
  readonly #sizes: FittingSizes;

  constructor(options: BatcherOptions<T, R>) {
    this.#options = options;
    this.#sizes = new FittingSizes(options.maxBatchSize);
    this.#slots = options.runners.map((run) => new BatchSlot(run, this.#lead));
    // Express batch times are not representative, so they get their own estimator.
    this.#express = options.express && new BatchSlot(options.express, new LeadTime());
  }

  /** Count of items without a batch. */
  get length(): number {
    return this.#queue.length + this.#aside.length + this.#parts.length + this.#late.length + this.#alone.length;
  }

  /** Whether no runner takes another batch now. */
  get isSaturated(): boolean {
    const now = this.#options.clock.now();
    return this.#isReserved || this.#slots.every((slot) => !slot.isIdle && slot.commitAtMs(now) > now);
  }

  /** Milliseconds since the start of the oldest running batch; 0 without one. */
  get runningForMs(): number {
    const now = this.#options.clock.now();
    return Math.max(...this.#allSlots.map((slot) => slot.runningForMs(now)));
  }

  get #allSlots(): readonly BatchSlot<T, R>[] {
    return this.#express === undefined ? this.#slots : [...this.#slots, this.#express];
  }

  /** Queues a ready item. `pump()` dispatches, so that items of one turn of the loop share a batch. */
  add(item: T): void {
    if (item.isAlone) {
      this.#alone.add([item]);
    } else {
      if (!this.#late.add(item)) this.#queue.add(item);
      this.#options.policy.arrived(item.key, item.readyAtMs);
    }
  }

  /** Removes the queued items of a lane. Running items continue. */
  remove(lane: object): T[] {
    const alone = this.#alone.remove(lane);
    const waiting = [this.#parts, this.#late, this.#aside, this.#queue];
    const items = [...alone, ...waiting.flatMap((part) => part.remove(lane))];
    // The runners reserved for these items are free again.
    if (alone.length > 0) this.pump();
    return items;
  }

  /** Ends all waiting for fuller batches: no more items will come. */
  hurry(): void {
    this.#isHurried = true;
    this.pump();
  }

  /** Dispatches all that the rule allows now. */
  pump(): void {
    const [first] = this.#slots;
    if (this.#isReserved) {
      if (first === undefined || this.#allSlots.some((slot) => !slot.isIdle)) return;
      if (this.#options.isHeard?.() === false) return;
      this.#isAloneRunning = true;
      this.#cause = "alone";
      this.#dispatch(first, this.#alone.shift());
      return;
    }
    const now = this.#options.clock.now();
    if (this.#slots.some((slot) => slot.isIdle)) this.#setAside(now);
    for (const slot of this.#slots) if (slot.isIdle) this.#dispatch(slot, this.#next());
    if (this.#express?.isIdle) {
      this.#setAside(now);
      if (this.#aside.length > 0) this.#cause = "express";
      this.#dispatch(this.#express, this.#aside.shift());
    }
    // Parts need a free runner. With full batches committed ahead no runner would become free.
    if (this.#parts.length > 0 || this.#queue.length === 0) return;
    // The first free runner starts the batch earliest.
    for (const slot of this.#slots.toSorted((a, b) => a.freeAtMs - b.freeAtMs)) {
      const atMs = slot.commitAtMs(now);
      if (atMs === Infinity) continue;
      if (atMs > now) {
        this.#pumpAt(atMs, now);
        break;
      }
      this.#setAside(now);
      this.#dispatch(slot, this.#full(slot));
    }
  }

  /** Whether an item with `isAlone` runs, or waits for idle runners. */
  get #isReserved(): boolean {
    return this.#isAloneRunning || this.#alone.length > 0;
  }

  /** During long batches, keeps a few new items for the express runner, which is free before the next batch ends. */
  #setAside(now: number): void {
    const { maxBatchSize, maxPaddedBytes, policy } = this.#options;
    if (this.#express === undefined || !this.#mayExpress || this.#aside.length > 0) return;
    if (!this.#slots.every((slot) => slot.isLongBulk(now))) return;
    const most = FEW * maxBatchSize;
    // A free runner must still get a full batch.
    if (this.#slots.some((slot) => slot.isIdle) && this.#queue.length < maxBatchSize + most) return;
    const isDue = ({ key, readyAtMs }: T, ready: number) =>
      this.#isHurried || policy.dueAtMs({ key, ready, oldestAtMs: readyAtMs }, now) <= now;
    const few = this.#queue.takeFew(most, isDue, maxPaddedBytes);
    if (few.length > 0) this.#aside.add(few);
  }

  #pumpAt(atMs: number, now: number): void {
    // A later timer stays; an early wake-up finds nothing to do.
    if (atMs >= this.#commitAtMs) return;
    this.#commitAtMs = atMs;
    this.#options.clock.after(atMs - now, () => {
      this.#commitAtMs = Infinity;
      this.#lead.woke(atMs, this.#options.clock.now());
      this.pump();
    });
  }

  /** The next batch for a free runner: parts of failed batches and new batches in turn, and batches of deprioritised lanes when due. */
  #next(): T[] | undefined {
    const late = this.#takeLate();
    if (late !== undefined) return late;
    const due = this.#isDueNext ? this.#due() : undefined;
    const batch = due ?? this.#parts.shift();
    this.#wasPart = due === undefined && batch !== undefined;
    if (this.#wasPart) this.#cause = "part";
    if (batch !== undefined || this.#aside.length === 0) return batch ?? this.#takeLateIfIdle();
    this.#cause = "idle";
    return this.#aside.shift();
  }

  /**
   * Whether a new batch goes before the next part of a failed batch. With many new lanes, batches can fail faster than parts find their bad items.
   * Then parts go first; otherwise they would pile up, and none of their items would finish.
   */
  get #isDueNext(): boolean {
    if (this.#parts.length === 0) return true;
    return this.#wasPart && this.#parts.length < MOST_PARTED * this.#options.maxBatchSize;
  }

  #takeLate(): T[] | undefined {
    return this.#late.isDue ? this.#lateBatch() : undefined;
  }

  /** Waits a moment first: clients whose batch just ended often send the next item. */
  #takeLateIfIdle(): T[] | undefined {
    if (this.#late.length === 0) return undefined;
    const now = this.#options.clock.now();
    const atMs = this.#late.idleAtMs;
    if (atMs > now) {
      this.#pumpAt(atMs, now);
      return undefined;
    }
    return this.#lateBatch();
  }

  #lateBatch(): T[] | undefined {
    this.#cause = "late";
    return this.#late.take((key) => this.#mostOf(key), this.#options.maxPaddedBytes);
  }

  #mostOf(key: string): number {
    return this.#sizes.of(key, this.#options.clock.now());
  }

  /** A batch of queued items. Sets the timer when all ready items may still wait. */
  #due(): T[] | undefined {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { clock } = this.#options;
    const now = clock.now();
    let soonest = Infinity;
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group, now, now);
      if (dueAtMs <= now) {
        if (isFull) this.#cause = "full";
        else if (dueAtMs > -Infinity) this.#cause = "delay";
        else this.#cause = this.#isHurried ? "drain" : "idle";
        return this.#queue.take(group, size, this.#options.maxPaddedBytes);
      }
      soonest = Math.min(soonest, dueAtMs);
    }
    if (soonest < Infinity) this.#cancelTimer = clock.after(soonest - now, () => this.pump());
    return undefined;
  }

  /** A full batch for a busy runner. When a partial batch has its turn, the runner must become free first. */
  #full(slot: BatchSlot<T, R>): T[] | undefined {
    const late = this.#takeLate();
    if (late !== undefined) return late;
    const { clock, policy } = this.#options;
    const now = clock.now();
    const freeAtMs = Math.max(
      now,
      slot.endAtMs((size) => policy.runMs(size)),
    );
    for (const group of this.#queue.groups()) {
      const { size, isFull, dueAtMs } = this.#plan(group, now, freeAtMs);
      if (isFull) {
        this.#cause = "full";
        return this.#queue.take(group, size, this.#options.maxPaddedBytes);
      }
      if (dueAtMs <= now) return undefined;
    }
    return undefined;
  }

  /** The size of a batch of `group` that starts at `beginMs`, and its dispatch time: at once, unless it is partial and may wait. */
  #plan(group: Group<T>, now: number, beginMs: number): { size: number; isFull: boolean; dueAtMs: number } {
    const { policy } = this.#options;
    const most = this.#mostOf(group.key);
    const waiting: Waiting = {
      key: group.key,
      ready: Math.min(group.length, most),
      // Computed on demand: the group may be large.
      get oldestAtMs() {
        return group.oldestReadyAtMs();
      },
    };
    const size = policy.sizeOf(waiting, now, beginMs);
    // Waiting would not enlarge it.
    const isFull = group.length > size || group.length >= most;
    return { size, isFull, dueAtMs: isFull || this.#isHurried ? -Infinity : policy.dueAtMs(waiting, now) };
  }

  #dispatch(slot: BatchSlot<T, R>, batch: T[] | undefined): void {
    if (batch === undefined) return;
    const { clock, policy, listener } = this.#options;
    slot.given(batch, clock.now());
    this.#late.passed(batch, clock.now());
    listener.dispatched(batch, this.#cause);
    slot.run(batch).then(
      (result) => {
        const wasReserved = this.#isReserved;
        const ms = this.#ended(slot);
        if (slot !== this.#express) {
          policy.ran(batch.length, ms);
          this.#queue.ran(batch, ms);
        }
        this.#pumpAnd(() => listener.finished(batch, result), wasReserved);
      },
      (cause: unknown) => {
        const wasReserved = this.#isReserved;
        this.#ended(slot);
        this.#failed(slot, batch, cause, wasReserved);
      },
    );
  }

  /** @returns how long the batch ran, in milliseconds */
  #ended(slot: BatchSlot<T, R>): number {
    this.#isAloneRunning = false;
    return slot.ended(this.#options.clock.now());
  }

  /**
   * The device goes first: the listener hears after the runner has its next batch. An item that runs alone may kill this process, so earlier results
   * are reported before it starts.
   */
  #pumpAnd(report: () => void, isReportedFirst: boolean): void {
    if (isReportedFirst) report();
    this.pump();
    if (!isReportedFirst) report();
  }

  #failed(slot: BatchSlot<T, R>, batch: T[], cause: unknown, wasReserved: boolean): void {
    const { listener, isWorthHalving, isOutOfMemory } = this.#options;
    const hadNoMemory = isOutOfMemory(cause);
    if (hadNoMemory) this.#mayExpress = false;
    // The batch did not fit beside others; it may fit without them.
    const wasBeside = hadNoMemory && slot === this.#express;
    const isFinal = !wasBeside && (batch.length === 1 || !isWorthHalving(cause));
    if (wasBeside) {
      this.#parts.add(batch);
    } else if (!isFinal && hadNoMemory) {
      this.#shrinkBelow(batch);
      this.#parts.add(...halves(batch));
    } else {
      this.#blame(batch);
      const parts = isFinal ? [] : partsOf(batch);
      if (!this.#late.addParts(parts)) this.#parts.add(...parts);
    }
    this.#pumpAnd(() => {
      if (isFinal) for (const item of batch) listener.failed(item, cause);
    }, wasReserved);
  }

  /** Deprioritises a lane whose batch failed without items of other lanes, with all its items. */
  #blame(batch: readonly T[]): void {
    const [first] = batch;
    if (first === undefined || batch.some(({ lane }) => lane !== first.lane)) return;
    this.#late.blame(first.lane);
    const waiting = this.#queue.remove(first.lane);
    for (const item of waiting) this.#late.add(item);
    // Deprioritised items use no queue slots of new items.
    if (waiting.length > 0) this.#options.listener.dispatched(waiting, "late");
  }

  #shrinkBelow(batch: readonly T[]): void {
    const { clock, listener } = this.#options;
    const size = this.#sizes.tooLarge(batch[0]?.key ?? "", batch.length, clock.now());
    if (size !== undefined) listener.shrunk(size);
  }
}

/** Splits between predictions while there are several, so that a bad item soon affects its own prediction only; then within one. */
function partsOf<T extends Queued>(batch: readonly T[]): T[][] {
  const lanes = [...Map.groupBy(batch, ({ lane }) => lane).values()];
  return lanes.length === 1 ? halves(batch) : halves(lanes).map((part) => part.flat());
}

function halves<T>(whole: readonly T[]): [T[], T[]] {
  const middle = whole.length >> 1;
  return [whole.slice(0, middle), whole.slice(middle)];
}
