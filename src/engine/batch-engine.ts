/** Batches checked items of all lanes and runs them on the runners of this process: what the engine is where libtorch is. */

import type { Tensor } from "../author/tensor.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { hasCode, messageOf, SconceError } from "../base/errors.ts";
import type { BatchCause } from "../base/labels.ts";
import { QueueDelay } from "./batch-policy.ts";
import { Batcher } from "./batcher.ts";
import type { BatchObserver } from "./engine.ts";
import type { Queued } from "./fair-queue.ts";
import type { CheckedItem } from "./item-check.ts";
import type { LatencyTarget } from "./latency-target.ts";
import type { Runner } from "./runner.ts";

/** An item as it waits for its batch. */
export interface BatchItem extends CheckedItem, Queued {
  readonly tensors: CheckedItem["tensors"];
  readonly padded: CheckedItem["padded"];
  readonly length: number;
  dispatchedAtMs: number;
  /** Cause of its batch. */
  cause?: BatchCause;
}

/** Receives the results of items. */
export interface BatchEngineListener<T extends BatchItem> {
  dispatched(items: readonly T[]): void;
  /** @param outputs one tensor for each declared output, with a row for each item, in order */
  finished(items: readonly T[], outputs: readonly Tensor[]): void;
  failed(item: T, error: SconceError): void;
}

export interface BatchEngineOptions<T extends BatchItem> {
  readonly runners: readonly Runner[];
  readonly maxBatchSize: number;
  /** As the batcher's. */
  readonly maxPaddedBytes?: number | undefined;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget?: LatencyTarget | undefined;
  readonly listener: BatchEngineListener<T>;
  /** As the batcher's. */
  readonly isHeard?: (() => boolean) | undefined;
  readonly observer?: BatchObserver | undefined;
  /** Called when too little device memory limits the batches of a shape for a time. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
  readonly clock?: Clock | undefined;
}

export class BatchEngine<T extends BatchItem> {
  readonly instances: number;
  readonly #options: BatchEngineOptions<T>;
  readonly #batcher: Batcher<T, readonly Tensor[]>;
  readonly #clock: Clock;
  /** Opened for its first batch, as most servers never need it; undefined where it could not be. */
  #express: Promise<Runner | undefined> | undefined;
  #isPumpScheduled = false;

  constructor(options: BatchEngineOptions<T>) {
    const { runners, maxBatchSize, maxQueueDelayMs, latencyTarget, listener, clock = systemClock } = options;
    this.instances = runners.length;
    this.#options = options;
    this.#clock = clock;
    const another = runners[0]?.another;
    this.#batcher = new Batcher({
      runners: runners.map((runner) => (items) => runner.run(tensorsOf(items))),
      express: another && ((items) => this.#runExpress(another, items)),
      maxBatchSize,
      maxPaddedBytes: options.maxPaddedBytes,
      policy: latencyTarget ?? new QueueDelay(maxQueueDelayMs),
      clock,
      listener: {
        dispatched: (items, cause) => this.#dispatched(items, cause),
        finished: (items, outputs) => this.#finished(items, outputs),
        failed: (item, cause) => listener.failed(item, runError(cause)),
        shrunk: (size) => options.onShrink?.(size),
      },
      isHeard: options.isHeard,
      isWorthHalving: (cause) => !hasCode(cause, "session_closed"),
      isOutOfMemory: (cause) => hasCode(cause, "out_of_memory"),
    });
  }

  get maxBatchSize(): number {
    return this.#options.maxBatchSize;
  }

  /** For how long the oldest batch has been running, in milliseconds; 0 when none is. */
  get runningForMs(): number {
    return this.#batcher.runningForMs;
  }

  /** In milliseconds of the engine's clock, for the times of items. */
  now(): number {
    return this.#clock.now();
  }

  submit(item: T): void {
    this.#batcher.add(item);
    if (this.#batcher.length >= this.maxBatchSize) {
      // A full batch does not wait for the rest of what is at hand: reading that may take longer than the device is busy.
      if (this.#batcher.isSaturated) for (const runner of this.#options.runners) runner.settle();
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

  /** Takes the waiting items of a lane away, and gives them back; those that run now run on. */
  cancel(lane: object): T[] {
    return this.#batcher.remove(lane);
  }

  /** To be called when what was told is beyond this process, after `isHeard` said no. */
  pump(): void {
    this.#batcher.pump();
  }

  hurry(): void {
    this.#batcher.hurry();
  }

  /** Items still there fail with `session_closed`. */
  async close(): Promise<void> {
    const express = await this.#express;
    await Promise.all([...this.#options.runners, express].map((runner) => runner?.dispose()));
  }

  async #runExpress(another: () => Promise<Runner>, items: readonly T[]): Promise<readonly Tensor[]> {
    const [first] = this.#options.runners;
    this.#express ??= another().catch(() => undefined);
    const runner = (await this.#express) ?? first;
    if (runner === undefined) throw new RangeError("there is no runner");
    return runner.run(tensorsOf(items));
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

function runError(cause: unknown): SconceError {
  return cause instanceof SconceError ? cause : new SconceError("run_failed", messageOf(cause), { cause });
}
