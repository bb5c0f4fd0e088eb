/** The predictions of this process that have not ended: each from its beginning until the store has how it ended. */

import { OpenMap } from "../../base/collections/open-map.ts";
import { codedError, SconceError } from "../../base/errors.ts";
import { reasonOf } from "../../base/labels.ts";
import { isLogged } from "../../base/log.ts";
import type { ItemFlow } from "../flow/item-flow.ts";
import type { Refusal } from "../flow/item-list.ts";
import type { ItemPipeline } from "../flow/item-pipeline.ts";
import type { Sender } from "../flow/suspects.ts";
import type { InputList } from "../inputs/input-list.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import { Admission, type AdmissionLimits, type Unfinished } from "./admission.ts";
import { Deadlines } from "./deadlines.ts";
import { workOnDemo } from "./demo.ts";
import { hashOf } from "./ids.ts";
import { ItemWork, type ItemWorkContext } from "./item-work.ts";
import { LivePrediction } from "./live.ts";
import { OutputMemory } from "./output-memory.ts";
import type { Origin } from "./predictions.ts";
import type { EndedRecord, Kind } from "./record.ts";
import type { KeptRequest, PredictionStore } from "./store.ts";
import { Unread } from "./unread.ts";

export interface ServiceLimits extends AdmissionLimits {
  /** Most inputs of one request. */
  readonly maxInputs: Readonly<Record<Kind, number>>;
  /** A prediction's time limit. */
  readonly timeoutMs: number;
  /** Most bytes of the outputs of one prediction. */
  readonly maxResultBytes: number;
  /** Most bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
}

/** The prediction that a log line is about. */
export interface Logged {
  readonly id: string;
  readonly origin: Origin | undefined;
}

export interface LivePredictionsOptions {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly store: PredictionStore;
  readonly limits: ServiceLimits;
  readonly metrics: Metrics;
  readonly memory: MemoryAccount;
  /** Undefined where nobody can be told. */
  readonly webhooks?: Webhooks | undefined;
  readonly unfinished?: Unfinished | undefined;
  readonly others?: (() => Readonly<Unfinished>) | undefined;
  /** Told of what fails, for the operator's log: the client is told by the prediction. */
  readonly onFault?: (where: string, error: SconceError, about: Logged) => void;
  /** Told where each prediction stands, when the log asks for that. */
  readonly onTrace?: (line: string, about: Logged) => void;
}

/** What a prediction begins with beside its request. */
export interface Beginning {
  readonly inputs: InputList;
  readonly bytes: number;
  readonly charge: Charge;
  readonly leftMs?: number;
  /** It is not to be run. */
  readonly isHeldBack?: boolean;
  readonly isWaitedFor?: boolean;
  readonly sender?: Sender | undefined;
}

export class LivePredictions {
  readonly admission: Admission;
  readonly unread = new Unread();
  readonly #options: LivePredictionsOptions;
  readonly #live = new OpenMap<string, LivePrediction>(hashOf);
  readonly #deadlines = new Deadlines<LivePrediction>((live) => this.#expire(live));
  readonly #itemWork: ItemWorkContext;
  readonly #onEnd = (live: LivePrediction, record: EndedRecord) => this.#ended(live, record);
  #isDraining = false;
  #isAbandoned = false;
  readonly #drained = Promise.withResolvers<void>();

  constructor(options: LivePredictionsOptions) {
    this.#options = options;
    this.admission = new Admission(options);
    const { flow, pipeline, metrics, onFault } = options;
    this.#itemWork = {
      flow,
      encode: (output) => pipeline.encode(output),
      encoded: (ms) => metrics.took("encode", ms),
      begun: (live) => this.#hasBegun(live),
      refused: (live, why) => this.#refused(live, why),
      faulted: (live, index, error) => onFault?.(`prediction ${live.id}, input ${index}`, error, live),
    };
  }

  /** Whether nothing new is taken. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Predictions that have not ended, and what they hold. */
  get unfinished(): Readonly<Unfinished & { predictions: number }> {
    const { items, bytes } = this.admission.unfinished;
    return { items, bytes, predictions: this.#live.size };
  }

  /** For how long the oldest prediction has waited that has an input to be run, in milliseconds. */
  get oldestWaitMs(): number {
    for (const live of this.#deadlines.active) if (live.isWaiting) return performance.now() - live.createdAtMs;
    return 0;
  }

  get(id: string): LivePrediction | undefined {
    return this.#live.get(id);
  }

  begin(request: KeptRequest, beginning: Beginning): LivePrediction {
    const { inputs, bytes, charge, leftMs = request.timeoutMs } = beginning;
    const { isHeldBack = false, isWaitedFor = false, sender } = beginning;
    const live = new LivePrediction({
      request,
      bytes,
      charge,
      deadlineMs: performance.now() + leftMs,
      onEnd: this.#onEnd,
    });
    live.isKept = beginning.leftMs !== undefined;
    if (live.webhook !== undefined) this.#options.webhooks?.watch(live, live.webhook);
    this.admission.begun(live.count, bytes);
    this.#live.set(live.id, live);
    this.#deadlines.add(live);
    if (isHeldBack) return live;
    if (live.kind === "demo") {
      this.#runDemo(live, inputs);
    } else {
      const { deadlineMs } = live;
      const memory = this.#memoryOf(live);
      new ItemWork(live, inputs, this.#itemWork, {
        deadlineMs,
        memory,
        isWaitedFor,
        client: sender,
        predictionId: live.id,
      }).run();
    }
    return live;
  }

  /** Resolves when the request is kept, or it has ended and need not be. @throws SconceError `predictions_unwritable` */
  async keep(live: LivePrediction): Promise<void> {
    const { request, webhook } = live;
    if (!live.isToBeKept) return;
    live.isKept = true;
    const { store, webhooks } = this.#options;
    try {
      // At once: of what ends meanwhile the outcome is kept before its client is answered.
      const isKept = request && store.create(request);
      await Promise.all([isKept, webhook && webhooks?.keep(live.id, webhook)]);
    } catch (error) {
      live.isKept = false;
      // Its client may come again with the same id.
      live.isOvertaken = request?.digest !== undefined;
      // Its client is told that it was not accepted.
      live.webhook = undefined;
      webhooks?.forget(live.record);
      live.end("Canceled", "store");
      throw error;
    }
    live.request = undefined;
    if (live.hasBegun && !live.isOver && !this.#isAbandoned) store.begun(live.id);
  }

  /** Lets go of one that another process has from now on: nobody is told how it ends here. */
  leave(id: string): void {
    const live = this.#live.get(id);
    if (live === undefined) return;
    live.isOvertaken = true;
    live.webhook = undefined;
    live.end("Canceled", "canceled");
  }

  /** Takes nothing new and resolves when all that was accepted has ended. */
  drain(): Promise<void> {
    this.#isDraining = true;
    if (this.#live.size === 0) this.#drained.resolve();
    return this.#drained.promise;
  }

  /** What has not ended from now on is left to the store as a request, for the next process to go on with. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const live of this.#live) if (live.isKept && live.hasBegun) this.#options.store.interrupted(live.id);
  }

  #memoryOf(live: LivePrediction): OutputMemory {
    const { memory, limits } = this.#options;
    return new OutputMemory(live, memory, limits.maxResultBytes);
  }

  #refused(live: LivePrediction, why: Refusal): void {
    // Others than its client wait for the end of one that is kept.
    if (why === "overload" && live.isKept) {
      live.end(this.admission.overtaken().message, "timeout");
      return;
    }
    if (why === "overload") live.isOvertaken = true;
    this.#expire(live);
  }

  #runDemo(live: LivePrediction, inputs: InputList): void {
    const { flow, pipeline, limits, onFault } = this.#options;
    const { maxLogBytes } = limits;
    const onBegun = () => this.#hasBegun(live);
    const memory = this.#memoryOf(live);
    workOnDemo(live, inputs, { flow, pipeline, onBegun, maxLogBytes, memory }).catch((error: unknown) => {
      if (live.isOver) return;
      const coded = codedError(error);
      onFault?.(`demo prediction ${live.id}`, coded, live);
      live.end(coded.message, reasonOf(coded.code));
    });
  }

  #hasBegun(live: LivePrediction): void {
    live.hasBegun = true;
    if (live.isKept && !this.#isAbandoned) this.#options.store.begun(live.id);
  }

  #expire(live: LivePrediction): void {
    const error = new SconceError("timed_out", `Timed out after ${Math.round(live.timeoutMs / 10) / 100} s`);
    this.#options.onFault?.(`${nounOf(live.kind)} ${live.id}`, error, live);
    live.end(error.message, "timeout");
  }

  #ended(live: LivePrediction, record: EndedRecord): void {
    const { metrics, store, webhooks, onTrace } = this.#options;
    if (isLogged("trace")) onTrace?.(`${nounOf(live.kind)} ${live.id} ended: ${record.outcome.status}`, live);
    this.#live.delete(live.id);
    if (live.isKept && live.webhook === undefined) this.unread.ended(live.id);
    this.#deadlines.delete(live);
    this.admission.ended(live.count, live.bytes);
    if (this.#isDraining && this.#live.size === 0) this.#drained.resolve();
    // Its client is told that it was not accepted.
    if (live.isOvertaken) {
      if (live.webhook !== undefined) webhooks?.forget(record);
      return;
    }
    if (!(this.#isAbandoned && live.isKept)) {
      store.finish(record);
      if (live.webhook !== undefined) webhooks?.ended(record, live.webhook);
    }
    metrics.predictionEnded(live, (performance.now() - live.createdAtMs) / 1000);
  }
}

export function nounOf(kind: Kind): string {
  return kind === "demo" ? "demo prediction" : "prediction";
}
