/** The batching rule: which items go through the model together, and when. Pure logic over a clock, runners and a policy. */
import type { Clock } from "../clock.ts";
import type { BatchCause } from "../metrics/labels.ts";
import type { BatchPolicy, Waiting } from "./batch-policy.ts";
import { BatchSlot, type Run } from "./batch-slot.ts";
import { FairQueue, type Group, type Queued } from "./fair-queue.ts";
import { FittingSizes } from "./fitting-sizes.ts";
import { LateItems } from "./late-items.ts";
import { LeadTime } from "./lead-time.ts";
import { MadeBatches } from "./made-batches.ts";

/** While parts of more failed batches than this wait, no new batch is begun. */
const MOST_PARTED = 2;
/** Most items of an express batch, of the most of any. */
const FEW = 1 / 4;

/** Is told what became of items: of every item that is added and not removed exactly once. */
export interface BatchListener<T, R> {
  /** These items wait no more, or behind all others: there is room for as many new ones. An item may be dispatched again. */
  dispatched(items: readonly T[], cause: BatchCause): void;
  /** The batch ran: `result` holds a row for each item, in order. */
  finished(items: readonly T[], result: R): void;
  /** The item failed by itself in a batch of its own, or for a reason that would fail any batch. */
  failed(item: T, cause: unknown): void;
  /** Batches of a shape have no more items than this for a time: a larger one did not fit into the device's memory. */
  shrunk(maxBatchSize: number): void;
}

export interface BatcherOptions<T, R> {
  readonly runners: readonly Run<T, R>[];
  /** Of a runner for what had better not wait for theirs; undefined where no other batch may run beside those. */
  readonly express?: Run<T, R> | undefined;
  readonly maxBatchSize: number;
  /** Most bytes of a batch's inputs where dimensions are padded; a single item may have more. */
  readonly maxPaddedBytes?: number | undefined;
  readonly policy: BatchPolicy;
  readonly clock: Clock;
  readonly listener: BatchListener<T, R>;
  /** Whether all that the listener was told has left this process, which an item that runs alone may end. After a false the listener calls `pump` once it has. */
  readonly isHeard?: (() => boolean) | undefined;
  /** Whether a batch that failed for `cause` is worth running again in parts. */
  readonly isWorthHalving: (cause: unknown) => boolean;
  /** Whether it failed for want of memory, so that others of that size would too. */
  readonly isOutOfMemory: (cause: unknown) => boolean;
}

/**
 * When a runner is free and items are ready, up to `maxBatchSize` of them are dispatched at once, in turn over the lanes;
 * they wait for more only if the policy says so. While a runner is busy its next batch is committed ahead only when that
 * is full, and late, so that what comes meanwhile has its turn. So an idle server adds no wait and a busy one never lets the device idle.
 *
 * A batch that fails is run again in parts until the bad item fails alone. Lanes that are found to be at fault have their turns after all others'.
 * Items that are alone have all runners to themselves.
 *
 * While all runners are busy for long with predictions of many items, a few of predictions that have just come go to the express runner: else they
 * would wait for the batch that runs, for one that was committed, and for their own, as large as those.
 */
export class Batcher<T extends Queued, R> {
  readonly #options: BatcherOptions<T, R>;
  readonly #queue = new FairQueue<T>();
  readonly #lead = new LeadTime();
  readonly #slots: readonly BatchSlot<T, R>[];
  readonly #express: BatchSlot<T, R> | undefined;
  /** What the express runner has next. */
  readonly #aside = new MadeBatches<T>();
  /** Until the device has shown that it has no memory to spare. */
  #mayExpress = true;
  /** Of batches that failed. Not mixed with others, so that a bad item is found in log2 runs. */
  readonly #parts = new MadeBatches<T>();
  #wasPart = false;
  /** Of lanes with an item that failed. */
  readonly #late = new LateItems<T>();
  readonly #alone = new MadeBatches<T>();
  #isAloneRunning = false;
  #cancelTimer: (() => void) | undefined;
  /** When busy runners are looked at again; Infinity when nothing waits for that. */
  #commitAtMs = Infinity;
  #isHurried = false;
  /** Of the batch that was taken last. */
  #cause: BatchCause = "full";
  readonly #sizes: FittingSizes;

  constructor(options: BatcherOptions<T, R>) {
    this.#options = options;
    this.#sizes = new FittingSizes(options.maxBatchSize);
    this.#slots = options.runners.map((run) => new BatchSlot(run, this.#lead));
    // How long its batches take says nothing of others.
    this.#express = options.express && new BatchSlot(options.express, new LeadTime());
  }

  /** Items that wait for a batch. */
  get length(): number {
    return this.#queue.length + this.#aside.length + this.#parts.length + this.#late.length + this.#alone.length;
  }

  /** Whether no runner takes another batch now. */
  get isSaturated(): boolean {
    const now = this.#options.clock.now();
    return this.#isReserved || this.#slots.every((slot) => !slot.isIdle && slot.commitAtMs(now) > now);
  }

  /** How long the batch that has been running the longest has been so, in milliseconds; 0 when none is. */
  get runningForMs(): number {
    const now = this.#options.clock.now();
    return Math.max(...this.#allSlots.map((slot) => slot.runningForMs(now)));
  }

  get #allSlots(): readonly BatchSlot<T, R>[] {
    return this.#express === undefined ? this.#slots : [...this.#slots, this.#express];
  }

  /** Lets a ready item wait for its batch. It is not dispatched before `pump()`, so that what comes together goes together. */
  add(item: T): void {
    if (item.isAlone) {
      this.#alone.add([item]);
    } else {
      if (!this.#late.add(item)) this.#queue.add(item);
      this.#options.policy.arrived(item.key, item.readyAtMs);
    }
  }

  /** Takes the waiting items of a lane away; those that run now run on. */
  remove(lane: object): T[] {
    const alone = this.#alone.remove(lane);
    const waiting = [this.#parts, this.#late, this.#aside, this.#queue];
    const items = [...alone, ...waiting.flatMap((part) => part.remove(lane))];
    // Runners that were kept free for it are for the others again.
    if (alone.length > 0) this.pump();
    return items;
  }

  /** From now on no item waits for a fuller batch: no others will come. */
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
    // Parts wait for a free runner, which there would never be while full batches are committed ahead.
    if (this.#parts.length > 0 || this.#queue.length === 0) return;
    // Those that are likely to be free first: what another is given it would begin later.
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

  /** Whether the runners are for an item that is alone: one that runs, or one that waits for them to be idle. */
  get #isReserved(): boolean {
    return this.#isAloneRunning || this.#alone.length > 0;
  }

  /** Where batches are long, keeps a few of those that have just come for the express runner, which is free sooner than the next batch ends. */
  #setAside(now: number): void {
    const { maxBatchSize, maxPaddedBytes, policy } = this.#options;
    if (this.#express === undefined || !this.#mayExpress || this.#aside.length > 0) return;
    if (!this.#slots.every((slot) => slot.isLongBulk(now))) return;
    const most = FEW * maxBatchSize;
    // A runner that is free has a full batch without them.
    if (this.#slots.some((slot) => slot.isIdle) && this.#queue.length < maxBatchSize + most) return;
    const isDue = ({ key, readyAtMs }: T, ready: number) =>
      this.#isHurried || policy.dueAtMs({ key, ready, oldestAtMs: readyAtMs }, now) <= now;
    const few = this.#queue.takeFew(most, isDue, maxPaddedBytes);
    if (few.length > 0) this.#aside.add(few);
  }

  #pumpAt(atMs: number, now: number): void {
    // A timer that is later stays: who looks too soon finds nothing to do.
    if (atMs >= this.#commitAtMs) return;
    this.#commitAtMs = atMs;
    this.#options.clock.after(atMs - now, () => {
      this.#commitAtMs = Infinity;
      this.#lead.woke(atMs, this.#options.clock.now());
      this.pump();
    });
  }

  /** The next batch for a free runner: parts of failed batches and new batches in turn, and those of late lanes when they are due. */
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
   * Whether a new batch goes before the next part of a failed one. None does while batches fail faster than their bad items are found, as with many new
   * lanes: parts would pile up, and no item of theirs would end.
   */
  get #isDueNext(): boolean {
    if (this.#parts.length === 0) return true;
    return this.#wasPart && this.#parts.length < MOST_PARTED * this.#options.maxBatchSize;
  }

  #takeLate(): T[] | undefined {
    return this.#late.isDue ? this.#lateBatch() : undefined;
  }

  /** Others whose last batch has just ended may come again. */
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

  /** A batch of those that wait; sets the timer when all that is ready may still wait. */
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

  /** A full batch for a busy runner, unless one that is not full has its turn: that waits for the runner to be free. */
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

  /** How many items of `group` may be in a batch that begins at `beginMs`, and when that may be dispatched: at once, unless it is not full and may wait. */
  #plan(group: Group<T>, now: number, beginMs: number): { size: number; isFull: boolean; dueAtMs: number } {
    const { policy } = this.#options;
    const most = this.#mostOf(group.key);
    const waiting: Waiting = {
      key: group.key,
      ready: Math.min(group.length, most),
      // Found when it is asked for: many may wait.
      get oldestAtMs() {
        return group.oldestReadyAtMs();
      },
    };
    const size = policy.sizeOf(waiting, now, beginMs);
    // It gets no larger by waiting.
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
   * The device first: the listener is told once the runner has its next batch. But an item that runs alone may end this process: what ended before it
   * is told first, or it would be taken for the cause.
   */
  #pumpAnd(tell: () => void, isToldFirst: boolean): void {
    if (isToldFirst) tell();
    this.pump();
    if (!isToldFirst) tell();
  }

  #failed(slot: BatchSlot<T, R>, batch: T[], cause: unknown, wasReserved: boolean): void {
    const { listener, isWorthHalving, isOutOfMemory } = this.#options;
    const hadNoMemory = isOutOfMemory(cause);
    if (hadNoMemory) this.#mayExpress = false;
    // Of what did not fit beside others nobody knows whether it fits by itself.
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

  /** Where a failed batch was of one lane, that lane goes last from now on, with all its items. */
  #blame(batch: readonly T[]): void {
    const [first] = batch;
    if (first === undefined || batch.some(({ lane }) => lane !== first.lane)) return;
    this.#late.blame(first.lane);
    const waiting = this.#queue.remove(first.lane);
    for (const item of waiting) this.#late.add(item);
    // Items behind all others take no room from new ones.
    if (waiting.length > 0) this.#options.listener.dispatched(waiting, "late");
  }

  #shrinkBelow(batch: readonly T[]): void {
    const { clock, listener } = this.#options;
    const size = this.#sizes.tooLarge(batch[0]?.key ?? "", batch.length, clock.now());
    if (size !== undefined) listener.shrunk(size);
  }
}

/** Parted between predictions as long as there are several, so that one's bad item soon leaves the others alone; then within one. */
function partsOf<T extends Queued>(batch: readonly T[]): T[][] {
  const lanes = [...Map.groupBy(batch, ({ lane }) => lane).values()];
  return lanes.length === 1 ? halves(batch) : halves(lanes).map((part) => part.flat());
}

function halves<T>(whole: readonly T[]): [T[], T[]] {
  const middle = whole.length >> 1;
  return [whole.slice(0, middle), whole.slice(middle)];
}
