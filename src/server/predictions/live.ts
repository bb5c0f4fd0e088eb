/** A prediction while it is under way: its record, which changes until it has ended, and those who wait for that. */
import type { InRing } from "../../base/collections/ring.ts";
import type { FailureReason } from "../../base/labels.ts";
import type { Charge } from "../memory/charge.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { Text } from "./large-text.ts";
import type { Origin } from "./predictions.ts";
import { type EndedRecord, hasEnded, type Kind, type Outcome, type PredictionRecord, pendingRecord } from "./record.ts";
import type { KeptRequest } from "./store.ts";

/** A record that still changes. */
type OpenRecord = { -readonly [K in keyof PredictionRecord]: PredictionRecord[K] };

export interface LiveOptions {
  readonly request: KeptRequest;
  /** Bytes of the request's body, which count until it ends. */
  readonly bytes: number;
  /** Memory that it takes until it ends. */
  readonly charge: Charge;
  /** When its time is up, in `performance.now()` milliseconds: a clock that nobody sets. */
  readonly deadlineMs: number;
  readonly onEnd: (live: LivePrediction, record: EndedRecord) => void;
}

/** What a prediction has to show before its end. */
export interface Work {
  /** The members of a failure with this message. */
  failure(errorMessage: string): Text;
  /** What succeeded so far, as JSON texts by index. */
  readonly outputs?: readonly (Text | undefined)[];
  /** Its client waits no more, and was told its id. */
  told?(): void;
  /** Lets go of all that only the way to the end needed. */
  release(): void;
}

export class LivePrediction implements InRing<LivePrediction> {
  readonly record: Readonly<OpenRecord>;
  readonly bytes: number;
  readonly charge: Charge;
  readonly deadlineMs: number;
  /** From its creation until its time is up. */
  readonly timeoutMs: number;
  readonly createdAtMs = performance.now();
  readonly origin: Origin | undefined;
  /** To be kept before its client is told its id; nobody needs it once that is done, or it has ended. */
  request: KeptRequest | undefined;
  /** Whom to tell of it. */
  webhook: Webhook | undefined;
  isKept = false;
  /** The model's code was called for one of its inputs. */
  hasBegun = false;
  itemsSucceeded = 0;
  /** It was given up for others before it was begun, or is another process' now. */
  isOvertaken = false;
  /** Inputs that failed, by why; made only when one did. */
  itemsFailed: Map<FailureReason, number> | undefined;
  /** Why it failed; undefined for one that succeeded, or has not ended. */
  failedFor: FailureReason | undefined;
  /** Its inputs on their way, where these are counted. */
  items: { readonly unsent: number; readonly heldBytes: number } | undefined;
  ring: InRing<LivePrediction>["ring"] = undefined;
  before: LivePrediction | undefined = undefined;
  after: LivePrediction | undefined = undefined;
  readonly #record: OpenRecord;
  #work: Work | undefined;
  #onEnd: LiveOptions["onEnd"] | undefined;
  #waiters: (() => void)[] | undefined;
  #watchers: Set<() => void> | undefined;
  #abort: AbortController | undefined;

  constructor({ request, bytes, charge, deadlineMs, onEnd }: LiveOptions) {
    this.#record = pendingRecord(request);
    this.record = this.#record;
    this.request = request;
    this.timeoutMs = request.timeoutMs;
    this.origin = request.origin;
    this.webhook = request.webhook;
    this.bytes = bytes;
    this.charge = charge;
    this.deadlineMs = deadlineMs;
    this.#onEnd = onEnd;
  }

  get id(): string {
    return this.#record.id;
  }

  get kind(): Kind {
    return this.#record.kind;
  }

  get count(): number {
    return this.#record.count;
  }

  /** Whether one of its inputs has not come to a batch. */
  get isWaiting(): boolean {
    return this.items === undefined ? this.#record.startedAtMs === undefined : this.items.unsent > 0;
  }

  /** Whether there is something to keep of it that is not kept. */
  get isToBeKept(): boolean {
    return !this.isKept && (this.request !== undefined || this.webhook !== undefined);
  }

  get isOver(): boolean {
    return this.#record.outcome !== undefined;
  }

  /** Fires when it ends; made only for those who ask. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Comes before everything that changes the record. */
  begin(work: Work): void {
    this.#work = work;
  }

  /** Its first item was given to a runner, or its demo begun. */
  started(): void {
    if (this.#record.startedAtMs !== undefined || this.isOver) return;
    this.#record.startedAtMs = Date.now();
    this.#changed();
  }

  /** Its client waits no more, and was told its id. */
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
    this.#changed();
  }

  log(text: string): void {
    if (this.isOver) return;
    this.#record.logs += text;
    this.#changed();
  }

  /** Ends it before its time, e.g. with "Canceled"; does nothing to one that has ended. */
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
    this.#abort?.abort();
    const waiters = this.#waiters ?? [];
    this.#waiters = undefined;
    if (hasEnded(record)) this.#onEnd?.(this, record);
    this.#onEnd = undefined;
    for (const callback of waiters) callback();
    this.#changed();
    this.#watchers = undefined;
  }

  /** Calls back once, at the end; not for one that has ended. */
  onceOver(callback: () => void): void {
    this.#waiters ??= [];
    this.#waiters.push(callback);
  }

  /** Removes a waiter. */
  forgo(callback: () => void): void {
    this.#waiters = this.#waiters?.filter((waiter) => waiter !== callback);
  }

  /** Outputs that came before its end. */
  get outputs(): readonly (Text | undefined)[] {
    return this.#work?.outputs ?? [];
  }

  /** Calls back at each change until it has ended. @returns what stops that */
  watch(changed: () => void): () => void {
    this.#watchers ??= new Set();
    this.#watchers.add(changed);
    return () => this.#watchers?.delete(changed);
  }

  #changed(): void {
    if (this.#watchers !== undefined) for (const changed of this.#watchers) changed();
  }
}
