/** The unfinished predictions of this process. */

import { OpenMap } from "../base/collections/open-map.ts";
import { Ring } from "../base/collections/ring.ts";
import { SconceError } from "../base/errors.ts";
import { hashOf } from "../base/id-hash.ts";
import type { FailureReason } from "../base/labels.ts";
import type { ModelVersion } from "../package/model-version.ts";
import type { Sender } from "../pipeline/client.ts";
import type { InputList } from "../pipeline/inputs/input-list.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { Spans } from "../pipeline/spans.ts";
import { Admission, type AdmissionLimits, type Unfinished } from "./admission.ts";
import { workOnDemo } from "./demo.ts";
import { type LiveContext, LivePrediction } from "./live.ts";
import type { PredictionMetrics } from "./metrics.ts";
import { CANCELED, type EndedRecord, type Kind } from "./record.ts";
import { type Origin, type PredictionRequest, storedBody } from "./request.ts";
import type { RunningBuild } from "./running-build.ts";
import type { Store } from "./store.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

export interface ServiceLimits extends AdmissionLimits {
  /** Maximum time limit of a prediction in milliseconds. */
  readonly timeoutMs: number;
  /** Maximum bytes of all outputs of a prediction. */
  readonly maxResultBytes: number;
  /** Maximum bytes of the logs of a demo prediction. */
  readonly maxLogBytes: number;
}

/** The data of a prediction that log lines show. */
export interface Logged {
  readonly id: string;
  readonly origin: Origin | undefined;
  readonly model: ModelVersion | undefined;
}

export interface LivePredictionsOptions {
  /** The build that runs new predictions. */
  readonly build: RunningBuild;
  readonly store: Store;
  readonly limits: ServiceLimits;
  readonly metrics: PredictionMetrics;
  readonly memory: MemoryAccount;
  readonly webhooks?: Webhooks | undefined;
  readonly unfinished?: Unfinished | undefined;
  readonly others?: (() => Readonly<Unfinished>) | undefined;
  readonly hasOthers?: boolean | undefined;
  /** Writes the error of a prediction or an input into the server's log. */
  readonly onFault?: (where: string, error: SconceError, about: Logged) => void;
  /** Called when a hook of the model writes a log line. */
  readonly onLog?: (where: string, text: string, about: Logged) => void;
  readonly tracing?: Spans | undefined;
  /** Called when a prediction has ended. */
  readonly onEnd?: () => void;
}

export interface Beginning {
  /** The present time of `performance.now()`, if the caller knows it. */
  readonly nowMs?: number;
  readonly build: RunningBuild;
  /** Undefined if no input runs, because the caller ends the prediction as failed. */
  readonly inputs: InputList | undefined;
  readonly bytes: number;
  readonly charge: Charge;
  /** Time limit, in milliseconds of `performance.now()`. Set for a claimed request: the store has it, and its time already runs. */
  readonly deadlineMs?: number;
  readonly sender?: Sender | undefined;
}

/** Above this number, ids of unread outcomes are not kept: evidently clients do not read outcomes. */
const MAX_UNREAD = 10_000;

export class LivePredictions {
  readonly admission: Admission;
  /**
   * Ids of ended, stored predictions without a webhook whose outcome no client has read. A stopping server waits until
   * clients have read them.
   */
  readonly unread = new OpenMap<string, true>(hashOf);
  readonly #options: LivePredictionsOptions;
  readonly #live = new Ring<LivePrediction>();
  /** The predictions whose id a client may know. A hash of every id would cost a small prediction a hundredth of its time. */
  readonly #known = new OpenMap<string, LivePrediction>(hashOf);
  /** Timer for the earliest time limit of all predictions. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAtMs = Infinity;
  #context: LiveContext | undefined;
  #build: RunningBuild;
  #lastEndMs = performance.now();

  constructor(options: LivePredictionsOptions) {
    this.#options = options;
    this.admission = new Admission({
      ...options,
      queueMs: (...asked) => this.#build.parts.flow?.waitMs(...asked) ?? 0,
    });
    this.#build = options.build;
    this.#context = this.#contextOf(options.build);
  }

  /** The build that runs new predictions. */
  get build(): RunningBuild {
    return this.#build;
  }

  set build(build: RunningBuild) {
    this.#build = build;
    this.#context = this.#contextOf(build);
  }

  #contextOf(build: RunningBuild): LiveContext | undefined {
    const { flow, pipeline } = build.parts;
    if (flow === undefined || pipeline === undefined) return undefined;
    const { memory, metrics, limits, store, onFault, onLog } = this.#options;
    return {
      build,
      flow,
      encoder: pipeline.encoder,
      hasParts: pipeline.hasParts,
      memory,
      maxResultBytes: limits.maxResultBytes,
      metrics,
      onStart: ({ id, storage }) => {
        if (storage === "store") store.processing(id);
      },
      onTimeout: (live) => this.#expire(live),
      onEnd: (live, record, nowMs) => this.#ended(live, record, nowMs),
      onFault,
      onLog,
    };
  }

  /** Numbers of unfinished predictions, their inputs and their body bytes. */
  get unfinished(): Readonly<Unfinished & { predictions: number }> {
    const { items, bytes } = this.admission.unfinished;
    return { items, bytes, predictions: this.#live.size };
  }

  /** Age in milliseconds of the oldest prediction with inputs that are in no batch yet; 0 if there is none. */
  get oldestWaitMs(): number {
    const now = performance.now();
    let oldestMs = now;
    for (const live of this.#live) if (live.isWaiting) oldestMs = Math.min(oldestMs, live.createdAtMs);
    return now - oldestMs;
  }

  get size(): number {
    return this.#live.size;
  }

  [Symbol.iterator](): Iterator<LivePrediction> {
    return this.#live[Symbol.iterator]();
  }

  /** Finds only predictions whose id a client may know. */
  get(id: string): LivePrediction | undefined {
    return this.#known.get(id);
  }

  begin(request: PredictionRequest, beginning: Beginning): LivePrediction {
    const { build, inputs, bytes, charge, nowMs = performance.now() } = beginning;
    const { deadlineMs = nowMs + request.timeoutMs } = beginning;
    const { tracing, limits } = this.#options;
    const { flow, pipeline } = build.parts;
    const context = build === this.#build ? this.#context : this.#contextOf(build);
    if (flow === undefined || pipeline === undefined || context === undefined)
      throw new Error("this process runs no predictions");
    build.enter();
    const live = new LivePrediction(request, { bytes, charge, nowMs, deadlineMs }, context);
    if (beginning.deadlineMs !== undefined) live.storage = "store";
    if (beginning.deadlineMs !== undefined || request.digest !== undefined) this.#known.set(live.id, live);
    this.admission.add(live.count, bytes);
    live.span = tracing?.prediction({
      id: live.id,
      kind: nounOf(live.kind),
      count: live.count,
      model: live.model?.name,
      origin: live.origin,
    });
    this.#live.add(live);
    if (deadlineMs < this.#timerAtMs) this.#setTimer(deadlineMs);
    if (inputs === undefined) return live;
    if (live.kind === "demo") void workOnDemo(live, inputs, { flow, pipeline, maxLogBytes: limits.maxLogBytes });
    else live.run(inputs, beginning.sender);
    return live;
  }

  /**
   * Stores the request with its webhook, unless the store has the request or the prediction has ended. A request
   * without a webhook is not stored while its client waits.
   * @throws SconceError `predictions_unwritable`
   */
  async store(live: LivePrediction): Promise<void> {
    const { request } = live;
    if (request === undefined || live.storage !== "memory") return;
    live.storage = "store";
    this.#known.set(live.id, live);
    const { store } = this.#options;
    try {
      // The store queues the write before the first `await`, so that an outcome is written after it.
      const storing = store.accept({ ...request, body: storedBody(request) });
      if (live.isProcessing) store.processing(live.id);
      await storing;
    } catch (error) {
      this.#drop(live, "store");
      throw error;
    }
    live.request = undefined;
  }

  /** Ends a prediction that another process runs now. */
  withdraw(id: string): void {
    const live = this.get(id);
    if (live !== undefined) this.#drop(live, "canceled");
  }

  /** Ends a prediction without an outcome for others: it is not stored, and no webhook message is sent. */
  #drop(live: LivePrediction, reason: FailureReason): void {
    live.storage = "none";
    live.end(CANCELED, reason);
  }

  /** Milliseconds since the last prediction ended; 0 while a prediction runs. */
  get idleMs(): number {
    return this.#live.size > 0 ? 0 : performance.now() - this.#lastEndMs;
  }

  /** Fails all unfinished predictions, because the model cannot be loaded. */
  failAll(message: string): void {
    for (const live of [...this.#live]) live.end(message, "engine");
  }

  /**
   * Leaves unfinished stored predictions to the next process: this process no longer writes their outcomes.
   * @returns their ids
   */
  abandon(): string[] {
    const stored = [...this.#live].filter(({ storage }) => storage === "store");
    for (const live of stored) live.storage = "none";
    return stored.map(({ id }) => id);
  }

  #setTimer(atMs: number): void {
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    // setTimeout() accepts at most 2^31 - 1 ms, so a later time limit takes several timers.
    this.#timer = setTimeout(() => this.#checkTime(), Math.min(Math.max(0, atMs - performance.now()), 2 ** 31 - 1));
    this.#timer.unref();
  }

  /** Most predictions end in time, so a check for each timer costs less than a reset of the timer for each prediction. */
  #checkTime(): void {
    this.#timerAtMs = Infinity;
    const nowMs = performance.now();
    let soonestMs = Infinity;
    for (const live of [...this.#live]) {
      if (live.deadlineMs <= nowMs) this.#expire(live);
      else soonestMs = Math.min(soonestMs, live.deadlineMs);
    }
    if (soonestMs < this.#timerAtMs) this.#setTimer(soonestMs);
  }

  #expire(live: LivePrediction): void {
    const error = new SconceError("timed_out", `Timed out after ${Math.round(live.timeoutMs / 10) / 100} s`);
    this.#options.onFault?.(`${nounOf(live.kind)} ${live.id}`, error, live);
    live.end(error.message, "timeout");
  }

  #ended(live: LivePrediction, record: EndedRecord, nowMs: number): void {
    const { metrics, store, webhooks, onEnd } = this.#options;
    const { id, storage, webhook } = live;
    live.span?.ended(live.failedFor);
    this.#live.delete(live);
    if (storage !== "memory" || record.digest !== undefined) this.#known.delete(id);
    onEnd?.();
    live.context.build?.ended();
    if (this.#live.size === 0) this.#lastEndMs = nowMs;
    if (storage === "store" && webhook === undefined && this.unread.size < MAX_UNREAD) this.unread.set(id, true);
    this.admission.ended(live.count, live.bytes);
    if (storage !== "none") {
      store.finish(record, storage === "store");
      if (webhook !== undefined) webhooks?.ended(record, webhook);
    }
    // If another process takes over a prediction, the other process counts the prediction.
    if (storage !== "none" || live.failedFor === "store")
      metrics.predictionEnded(live, (nowMs - live.createdAtMs) / 1000);
  }
}

export function nounOf(kind: Kind): string {
  return kind === "demo" ? "demo prediction" : "prediction";
}
