/** The engine: takes an item's tensors, gives its rows. Everything crosses this interface as names and plain bytes. */
import { hasCode, messageOf, SconceError } from "../errors.ts";
import type { Tensor, TensorSpecs } from "../model/tensor.ts";
import { Batcher, type BatchListener, type Clock } from "./batcher.ts";
import type { Queued } from "./fair-queue.ts";
import { type CheckedItem, itemCheck } from "./item-check.ts";
import type { LatencyTarget } from "./latency-target.ts";
import { type Rows, rowParting } from "./rows.ts";
import type { Runner } from "./runner.ts";

export type { Rows } from "./rows.ts";

/** Whoever submits items: one for each prediction. It is told of each item's end exactly once; after `cancel` only of those that ran. */
export interface ItemSink {
  /** The item was given to a runner. */
  dispatched(index: number): void;
  succeeded(index: number, rows: Rows): void;
  failed(index: number, error: SconceError): void;
}

/** What an engine tells of its work, for metrics. */
export interface BatchObserver {
  /** A batch ran. `waitMs`: of its oldest item, from ready to dispatched; `runMs`: from dispatched to done. */
  ran(batch: { readonly size: number; readonly waitMs: number; readonly runMs: number }): void;
}

export interface Engine {
  /** Halved when a batch does not fit into the device's memory. */
  readonly maxBatchSize: number;
  readonly instances: number;
  /** Items and bytes that are ready and wait for a batch. */
  readonly ready: { readonly items: number; readonly bytes: number };
  /** Called after items went from ready to a runner: there is room for more. */
  onDispatch: (() => void) | undefined;
  /**
   * Lets an item join a batch. Items of one sink keep their order among those with the same shape key.
   * @param heldBytes what the item holds in memory beside its tensors, for the bound on what is ready
   * @throws SconceError `tensor_invalid` when the tensors are not the declared ones
   */
  submit(sink: ItemSink, index: number, tensors: Readonly<Record<string, Tensor>>, heldBytes?: number): void;
  /** Takes a sink's waiting items away. Running ones run on, for the sake of their neighbours; the sink ignores what it is told of them. */
  cancel(sink: ItemSink): void;
  /** From now on no item waits for a fuller batch. */
  hurry(): void;
  /** Closes the runners. Items still there fail with `session_closed`. */
  close(): Promise<void>;
}

export interface EngineOptions {
  readonly runners: readonly Runner[];
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  readonly maxBatchSize: number;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly observer?: BatchObserver;
  /** Told when batches get smaller for good, for want of memory. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
  readonly clock?: Clock;
}

/** An item in the batcher; its lane is the sink that submitted it. */
interface EngineItem extends CheckedItem, Queued {
  readonly length: number;
  readonly lane: ItemSink;
  readonly index: number;
  dispatchedAtMs: number;
}

const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** Batches items of all sinks and runs them on runners of this machine. */
export class LocalEngine implements Engine, BatchListener<EngineItem, readonly Tensor[]> {
  readonly instances: number;
  onDispatch: (() => void) | undefined;
  readonly #runners: readonly Runner[];
  readonly #batcher: Batcher<EngineItem, readonly Tensor[]>;
  readonly #check: (given: Readonly<Record<string, Tensor>>) => CheckedItem;
  readonly #rows: ReturnType<typeof rowParting>;
  readonly #observer: BatchObserver | undefined;
  readonly #onShrink: ((maxBatchSize: number) => void) | undefined;
  readonly #clock: Clock;
  #isPumpScheduled = false;

  constructor({
    runners,
    inputs,
    outputs,
    maxBatchSize,
    maxQueueDelayMs,
    latencyTarget,
    observer,
    onShrink,
    clock = systemClock,
  }: EngineOptions) {
    this.instances = runners.length;
    this.#runners = runners;
    this.#check = itemCheck(inputs);
    this.#rows = rowParting(outputs);
    this.#observer = observer;
    this.#onShrink = onShrink;
    this.#clock = clock;
    this.#batcher = new Batcher({
      runners: runners.map((runner) => ({ run: (items) => runner.run(items.map((item) => item.tensors)) })),
      maxBatchSize,
      maxQueueDelayMs,
      latencyTarget,
      clock,
      listener: this,
      isWorthHalving: (cause) => !hasCode(cause, "session_closed"),
      isOutOfMemory: (cause) => hasCode(cause, "out_of_memory"),
    });
  }

  get maxBatchSize(): number {
    return this.#batcher.maxBatchSize;
  }

  get ready(): { items: number; bytes: number } {
    return { items: this.#batcher.length, bytes: this.#batcher.bytes };
  }

  submit(sink: ItemSink, index: number, tensors: Readonly<Record<string, Tensor>>, heldBytes = 0): void {
    const { tensors: owned, key, padded, length, bytes } = this.#check(tensors);
    this.#batcher.add({
      lane: sink,
      index,
      tensors: owned,
      key,
      padded,
      length,
      bytes: bytes + heldBytes,
      readyAtMs: this.#clock.now(),
      dispatchedAtMs: 0,
    });
    if (this.#batcher.length >= this.maxBatchSize) {
      // A full batch does not wait for the rest of what is at hand: reading that may take longer than the device is busy.
      if (this.#batcher.isSaturated) for (const runner of this.#runners) runner.settle();
      else this.#batcher.pump();
    }
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    // Once all that is at hand was submitted: what came together is batched together, and an idle engine waits for nothing else.
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.#batcher.pump();
    });
  }

  cancel(sink: ItemSink): void {
    this.#batcher.remove(sink);
  }

  hurry(): void {
    this.#batcher.hurry();
  }

  async close(): Promise<void> {
    await Promise.all(this.#runners.map((runner) => runner.dispose()));
  }

  dispatched(items: readonly EngineItem[]): void {
    const now = this.#clock.now();
    for (const item of items) {
      item.dispatchedAtMs = now;
      item.lane.dispatched(item.index);
    }
    this.onDispatch?.();
  }

  finished(items: readonly EngineItem[], outputs: readonly Tensor[]): void {
    this.#observe(items);
    for (let i = 0; i < items.length; i++) {
      const item = items[i];
      if (item !== undefined) item.lane.succeeded(item.index, this.#rows(outputs, i, item.padded));
    }
  }

  failed(item: EngineItem, cause: unknown): void {
    const error = cause instanceof SconceError ? cause : new SconceError("run_failed", messageOf(cause), { cause });
    item.lane.failed(item.index, error);
  }

  shrunk(maxBatchSize: number): void {
    this.#onShrink?.(maxBatchSize);
  }

  #observe(items: readonly EngineItem[]): void {
    const [first] = items;
    if (this.#observer === undefined || first === undefined) return;
    let readyAtMs = Infinity;
    for (const item of items) readyAtMs = Math.min(readyAtMs, item.readyAtMs);
    const { dispatchedAtMs } = first;
    const runMs = this.#clock.now() - dispatchedAtMs;
    this.#observer.ran({ size: items.length, waitMs: dispatchedAtMs - readyAtMs, runMs });
  }
}
