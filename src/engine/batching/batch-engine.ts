/** Runs the inputs of all predictions in batches, on the runners of this process. */

import type { Tensor } from "../../author/tensor.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { hasCode, MODEL_FAILED, messageOf, SconceError } from "../../base/errors.ts";
import type { BatchCause } from "../../base/labels.ts";
import type { BatchObserver } from "../engine.ts";
import type { CheckedItem } from "../item-check.ts";
import type { Runner } from "../runner.ts";
import { Batcher } from "./batcher.ts";
import type { Queued } from "./fair-queue.ts";
import type { LatencyTarget } from "./latency-target.ts";

export interface BatchItem extends CheckedItem, Queued {
  readonly tensors: CheckedItem["tensors"];
  readonly padded: CheckedItem["padded"];
  readonly length: number;
  dispatchedAtMs: number;
  cause?: BatchCause;
}

export interface BatchEngineListener<T extends BatchItem> {
  dispatched(items: readonly T[]): void;
  /** The batch ran. @param outputs one tensor for each declared output, with a row for each item, in order */
  finished(items: readonly T[], outputs: readonly Tensor[]): void;
  failed(item: T, error: SconceError): void;
  /**
   * The model yielded partial outputs of the batch.
   * @param rows one tensor for each tensor that the model yields, with a row for each item, in order
   */
  part(items: readonly T[], rows: readonly Tensor[]): void;
  /** Whether a client needs the output of at least one of the items. */
  isNeeded(items: readonly T[]): boolean;
}

export interface BatchEngineOptions<T extends BatchItem> {
  readonly runners: readonly Runner[];
  readonly maxBatchSize: number;
  /** Limit in bytes for the padded inputs of a batch. A single larger item still runs, alone. */
  readonly maxPaddedBytes?: number | undefined;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly listener: BatchEngineListener<T>;
  /** Whether all results of this process have been sent. After it was false, the owner calls `pump`. */
  readonly isHeard?: (() => boolean) | undefined;
  readonly observer?: BatchObserver | undefined;
  /** Called when a lack of device memory limits the batches of a shape for a time. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
  readonly clock?: Clock | undefined;
}

export class BatchEngine<T extends BatchItem> {
  readonly instances: number;
  readonly #options: BatchEngineOptions<T>;
  readonly #batcher: Batcher<T, readonly Tensor[]>;
  readonly #clock: Clock;
  #isPumpScheduled = false;

  constructor(options: BatchEngineOptions<T>) {
    const { runners, maxBatchSize, maxQueueDelayMs, latencyTarget, listener, clock = systemClock } = options;
    this.instances = runners.length;
    this.#options = options;
    this.#clock = clock;
    this.#batcher = new Batcher({
      runners: runners.map((runner) => (items) => this.#run(runner, items)),
      maxBatchSize,
      maxPaddedBytes: options.maxPaddedBytes,
      maxQueueDelayMs,
      latencyTarget,
      clock,
      listener: {
        dispatched: (items, cause) => this.#dispatched(items, cause),
        finished: (items, outputs) => this.#finished(items, outputs),
        failed: (item, cause) => listener.failed(item, runError(cause)),
        shrunk: (size) => options.onShrink?.(size),
      },
      isHeard: options.isHeard,
      isNeeded: (item) => listener.isNeeded([item]),
      isWorthHalving: (cause) => !hasCode(cause, "session_closed") && !hasCode(cause, "canceled"),
      isOutOfMemory: (cause) => hasCode(cause, "out_of_memory"),
    });
  }

  get maxBatchSize(): number {
    return this.#options.maxBatchSize;
  }

  /** Longest time in milliseconds since a running batch began or last yielded partial outputs; 0 if no batch runs. */
  get runningForMs(): number {
    return this.#batcher.runningForMs;
  }

  now(): number {
    return this.#clock.now();
  }

  /** Queues an item. @throws SconceError `run_failed` for sizes that the weights refuse in every batch */
  submit(item: T): void {
    this.#options.runners[0]?.checkItem?.(item.tensors);
    this.#batcher.add(item);
    if (this.#batcher.length >= this.maxBatchSize) {
      // `settle` resolves the promises of finished batches now. The event loop may first read many items from the
      // socket.
      if (this.#batcher.isSaturated) for (const runner of this.#options.runners) runner.settle();
      else this.#batcher.pump();
    }
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    // Dispatch at the end of this turn of the event loop, so that items of one turn share a batch.
    setImmediate(() => {
      this.#isPumpScheduled = false;
      this.#batcher.pump();
    });
  }

  /** Removes the queued items of a prediction. Its running items continue. */
  cancel(lane: object): T[] {
    return this.#batcher.remove(lane);
  }

  /** Dispatches waiting items. Call this once all results are sent, if `isHeard` was false. */
  pump(): void {
    this.#batcher.pump();
  }

  /** Closes the runners. Unfinished items fail with `session_closed`. */
  async close(): Promise<void> {
    await Promise.all(this.#options.runners.map((runner) => runner.dispose()));
  }

  #run(runner: Runner, items: readonly T[]): Promise<readonly Tensor[]> {
    const { listener } = this.#options;
    const batcher = this.#batcher;
    return runner.run(tensorsOf(items), {
      get isOver() {
        return !listener.isNeeded(items);
      },
      part(rows) {
        batcher.yielded(items);
        listener.part(items, rows);
      },
    });
  }

  #dispatched(items: readonly T[], cause: BatchCause): void {
    const now = this.#clock.now();
    for (const item of items) {
      item.dispatchedAtMs = now;
      item.cause = cause;
    }
    this.#options.listener.dispatched(items);
  }

  #finished(items: readonly T[], outputs: readonly Tensor[]): void {
    this.#observe(items);
    this.#options.listener.finished(items, outputs);
  }

  #observe(items: readonly T[]): void {
    const { observer } = this.#options;
    const [first] = items;
    if (observer === undefined || first === undefined) return;
    let readyAtMs = Infinity;
    for (const item of items) readyAtMs = Math.min(readyAtMs, item.readyAtMs);
    const { dispatchedAtMs, cause = "idle" } = first;
    observer.ran({
      size: items.length,
      waitMs: dispatchedAtMs - readyAtMs,
      runMs: this.#clock.now() - dispatchedAtMs,
      cause,
    });
  }
}

function tensorsOf(items: readonly BatchItem[]): (readonly Tensor[])[] {
  return items.map(({ tensors }) => tensors);
}

export function runError(cause: unknown): SconceError {
  if (cause instanceof SconceError) return cause;
  return new SconceError("run_failed", messageOf(cause), { cause, clientMessage: MODEL_FAILED });
}
