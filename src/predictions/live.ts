/** A prediction that this process runs, from its acceptance to its end. */
import type { InRing } from "../base/collections/ring.ts";
import type { FailureReason } from "../base/labels.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { PredictionSpan } from "../pipeline/spans.ts";
import type { Text } from "./large-text.ts";
import type { ModelVersion } from "./model-version.ts";
import { Observed } from "./observed.ts";
import type { PartLog } from "./part-log.ts";
import { type EndedRecord, hasEnded, type Kind, type Outcome, type PredictionRecord, pendingRecord } from "./record.ts";
import type { Origin, PredictionRequest } from "./request.ts";
import type { RunningBuild } from "./running-build.ts";
import type { Webhook } from "./webhooks/webhook.ts";

type MutableRecord = { -readonly [K in keyof PredictionRecord]: PredictionRecord[K] };

export interface LiveOptions {
  readonly request: PredictionRequest;
  readonly build?: RunningBuild;
  /** Size of the body in bytes, which admission counts until the prediction ends. */
  readonly bytes: number;
  /** Memory that the request occupies, freed at the end. */
  readonly charge: Charge;
  /** When the prediction times out, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** Pieces of outputs that the model yields early; undefined for a model that yields none. */
  readonly parts?: PartLog | undefined;
  readonly onEnd: (live: LivePrediction, record: EndedRecord) => void;
}

/** Counts the unfinished predictions of an API key. */
export interface UnfinishedCount {
  begun(): void;
  ended(): void;
}

/** Operations on the running inputs, or the running demo, of a prediction. */
export interface Work {
  /** The JSON members of a failed prediction: the message, errors of inputs, and the outputs so far. */
  failure(errorMessage: string): Text;
  /** Outputs so far as JSON texts, by index of the input. */
  readonly outputs?: readonly (Text | undefined)[];
  /** Removes waiting inputs from the queue, and frees all memory except the outcome. */
  release(): void;
}

export class LivePrediction extends Observed implements InRing<LivePrediction> {
  readonly record: Readonly<MutableRecord>;
  /** The build that counts the prediction until it ends. */
  readonly build: RunningBuild | undefined;
  readonly bytes: number;
  readonly charge: Charge;
  readonly parts: PartLog | undefined;
  readonly deadlineMs: number;
  readonly timeoutMs: number;
  /** Time of creation in milliseconds of `performance.now()`. */
  readonly createdAtMs = performance.now();
  readonly origin: Origin | undefined;
  /** The request, until the store has it or the prediction ends. */
  request: PredictionRequest | undefined;
  webhook: Webhook | undefined;
  /** The API key that counts this prediction as unfinished. Stays the same object when the file of keys is reloaded. */
  key: UnfinishedCount | undefined;
  span: PredictionSpan | undefined;
  /** Whether the request was given to the store. */
  isStored = false;
  /** Whether the model's code has started on an input. */
  hasBegun = false;
  itemsSucceeded = 0;
  /** Whether the end is not recorded, because the client got an error or another process runs the prediction. */
  isWithdrawn = false;
  /** Numbers of failed inputs by reason; undefined if no input failed. */
  itemsFailed: Map<FailureReason, number> | undefined;
  failedFor: FailureReason | undefined;
  items: { readonly unsent: number; readonly heldBytes: number } | undefined;
  ring: InRing<LivePrediction>["ring"] = undefined;
  before: LivePrediction | undefined = undefined;
  after: LivePrediction | undefined = undefined;
  readonly #record: MutableRecord;
  #work: Work | undefined;
  #onEnd: LiveOptions["onEnd"] | undefined;
  #abort: AbortController | undefined;

  constructor({ request, build, bytes, charge, deadlineMs, parts, onEnd }: LiveOptions) {
    super();
    this.#record = pendingRecord(request);
    this.record = this.#record;
    this.request = request;
    this.build = build;
    this.timeoutMs = request.timeoutMs;
    this.origin = request.origin;
    this.webhook = request.webhook;
    this.bytes = bytes;
    this.charge = charge;
    this.parts = parts;
    this.deadlineMs = deadlineMs;
    this.#onEnd = onEnd;
  }

  get id(): string {
    return this.#record.id;
  }

  get kind(): Kind {
    return this.#record.kind;
  }

  get model(): ModelVersion | undefined {
    return this.#record.model;
  }

  get count(): number {
    return this.#record.count;
  }

  /** Whether any input is in no batch yet. */
  get isWaiting(): boolean {
    return this.items === undefined ? this.#record.startedAtMs === undefined : this.items.unsent > 0;
  }

  /** Whether the request or its webhook must still be given to the store. */
  get mustStore(): boolean {
    return !this.isStored && (this.request !== undefined || this.webhook !== undefined);
  }

  get isOver(): boolean {
    return this.#record.outcome !== undefined;
  }

  /** A signal that aborts when the prediction ends. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Sets the work, which later calls of `end` and `finish` release. */
  begin(work: Work): void {
    this.#work = work;
  }

  /** Records the start: the first batch with an input started, or the demo began. */
  started(): void {
    if (this.#record.startedAtMs !== undefined || this.isOver) return;
    this.#record.startedAtMs = Date.now();
    this.changed();
  }

  itemFailed(reason: FailureReason): void {
    this.itemsFailed ??= new Map();
    this.itemsFailed.set(reason, (this.itemsFailed.get(reason) ?? 0) + 1);
  }

  itemDone(): void {
    if (this.isOver) return;
    this.#record.itemsDone += 1;
    this.changed();
  }

  /** Tells watchers that the model has yielded a piece of an output. */
  partAdded(): void {
    if (!this.isOver) this.changed();
  }

  log(text: string): void {
    if (this.isOver) return;
    this.#record.logs += text;
    this.changed();
  }

  /** Fails the prediction, for example with the message "Canceled". Does nothing if the prediction has ended. */
  end(errorMessage: string, reason: FailureReason): void {
    if (this.isOver) return;
    this.failedFor = reason;
    const members = this.#work?.failure(errorMessage) ?? `"error_message":${JSON.stringify(errorMessage)}`;
    this.finish({ status: "failed", members });
  }

  finish(outcome: Outcome): void {
    if (this.isOver) return;
    const record = this.#record;
    record.outcome = outcome;
    record.finishedAtMs = Date.now();
    this.request = undefined;
    this.#work?.release();
    this.#work = undefined;
    this.charge[Symbol.dispose]();
    this.parts?.[Symbol.dispose]();
    this.#abort?.abort();
    if (hasEnded(record)) this.#onEnd?.(this, record);
    this.#onEnd = undefined;
    this.callWaiters();
    this.changed();
  }

  /** Outputs so far, as JSON by index of the input; empty after the end. */
  get outputs(): readonly (Text | undefined)[] {
    return this.#work?.outputs ?? [];
  }
}
