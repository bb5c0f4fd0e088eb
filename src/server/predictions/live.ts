/** A prediction of this process, from its acceptance to its end. */
import type { InRing } from "../../base/collections/ring.ts";
import type { FailureReason } from "../../base/labels.ts";
import type { ApiKey } from "../access/api-key.ts";
import type { Charge } from "../memory/charge.ts";
import type { PredictionSpan } from "../telemetry/tracing.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { Text } from "./large-text.ts";
import type { ModelVersion } from "./model-version.ts";
import { Observed } from "./observed.ts";
import type { PartLog } from "./part-log.ts";
import type { Origin } from "./predictions.ts";
import { type EndedRecord, hasEnded, type Kind, type Outcome, type PredictionRecord, pendingRecord } from "./record.ts";
import type { AcceptedRequest } from "./store.ts";

type MutableRecord = { -readonly [K in keyof PredictionRecord]: PredictionRecord[K] };

export interface LiveOptions {
  readonly request: AcceptedRequest;
  /** Bytes of the body, which count against the queue limit until the end. */
  readonly bytes: number;
  /** Memory of the request until its end. */
  readonly charge: Charge;
  /** Time limit in `performance.now()` milliseconds. */
  readonly deadlineMs: number;
  /** Undefined for a model whose outputs have no parts. */
  readonly parts?: PartLog | undefined;
  readonly onEnd: (live: LivePrediction, record: EndedRecord) => void;
}

/** The running part of a prediction. */
export interface Work {
  /** Members of the outcome for a failure with this message. */
  failure(errorMessage: string): Text;
  /** JSON texts of the outputs so far, by index. */
  readonly outputs?: readonly (Text | undefined)[];
  /** The client has the id, and no longer waits. */
  told?(): void;
  /** Frees everything but the outcome. */
  release(): void;
}

export class LivePrediction extends Observed implements InRing<LivePrediction> {
  readonly record: Readonly<MutableRecord>;
  readonly bytes: number;
  readonly charge: Charge;
  readonly parts: PartLog | undefined;
  readonly deadlineMs: number;
  readonly timeoutMs: number;
  /** In `performance.now()` milliseconds. */
  readonly createdAtMs = performance.now();
  readonly origin: Origin | undefined;
  /** The request to store before the client gets the id; undefined once it is stored, and after the end. */
  request: AcceptedRequest | undefined;
  webhook: Webhook | undefined;
  /** The body of the request until the end, for shadows; undefined without a shadow. */
  copied: AcceptedRequest["body"] | undefined;
  /** The API key that counts this prediction. A reload of the keys makes other objects. */
  key: ApiKey | undefined;
  /** Undefined without tracing. */
  span: PredictionSpan | undefined;
  /** Whether the store has the request. */
  isStored = false;
  /** Whether the model's code ran for one of the inputs. */
  hasBegun = false;
  itemsSucceeded = 0;
  /** Whether this process must not report the end: the client was refused, or another process runs the prediction. */
  isWithdrawn = false;
  /** Counts of failed inputs by reason; undefined without a failure. */
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

  constructor({ request, bytes, charge, deadlineMs, parts, onEnd }: LiveOptions) {
    super();
    this.#record = pendingRecord(request);
    this.record = this.#record;
    this.request = request;
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

  /** Whether an input has not reached a batch. */
  get isWaiting(): boolean {
    return this.items === undefined ? this.#record.startedAtMs === undefined : this.items.unsent > 0;
  }

  /** Whether the store lacks the request or the webhook. */
  get mustStore(): boolean {
    return !this.isStored && (this.request !== undefined || this.webhook !== undefined);
  }

  get isOver(): boolean {
    return this.#record.outcome !== undefined;
  }

  /** Aborts at the end. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Must precede every change of the record. */
  begin(work: Work): void {
    this.#work = work;
  }

  /** The first item was dispatched, or the demo began. */
  started(): void {
    if (this.#record.startedAtMs !== undefined || this.isOver) return;
    this.#record.startedAtMs = Date.now();
    this.changed();
  }

  /** The client has the id, and no longer waits. */
  told(): void {
    this.#work?.told?.();
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

  /** `parts` has another part. */
  partAdded(): void {
    if (!this.isOver) this.changed();
  }

  log(text: string): void {
    if (this.isOver) return;
    this.#record.logs += text;
    this.changed();
  }

  /** Fails the prediction, for example with "Canceled". Does nothing after the end. */
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

  /** Outputs before the end. */
  get outputs(): readonly (Text | undefined)[] {
    return this.#work?.outputs ?? [];
  }
}
