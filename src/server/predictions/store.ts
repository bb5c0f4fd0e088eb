/** Where predictions are kept: this process's memory, or a database that outlives it. */
import type { Webhook } from "../webhooks/webhook.ts";
import type { WebhookStore } from "../webhooks/webhook-store.ts";
import type { Origin } from "./predictions.ts";
import type { EndedRecord, Kind, PredictionRecord } from "./record.ts";

/** All that is needed to begin a prediction, or to begin it again in another process. */
export interface KeptRequest {
  readonly id: string;
  readonly kind: Kind;
  /** Inputs of the body. */
  readonly count: number;
  readonly createdAtMs: number;
  /** Milliseconds from its creation until its time is up. */
  readonly timeoutMs: number;
  /** A JSON list of inputs that fit the schema. */
  readonly body: string | Uint8Array<ArrayBuffer>;
  /** Of its kind and body, where its client chose the id. */
  readonly digest?: string | undefined;
  /** The request that it came by, for log lines. */
  readonly origin?: Origin | undefined;
  /** Told how it ends; kept by `webhooks`. */
  readonly webhook?: Webhook | undefined;
}

/** A prediction that a process left behind. */
export interface LeftRequest extends KeptRequest {
  /** Milliseconds until its time is up; time without a process counts. */
  readonly leftMs: number;
  /** Processes that ended while it ran. */
  readonly deaths: number;
  /** Whether a client waits for its end, wherever that is. */
  readonly isWaitedFor?: boolean;
}

/** Which ended predictions can still be read. */
export interface RetentionLimits {
  readonly maxCount: number;
  /** By a clock that cannot be set. */
  readonly maxAgeMs: number;
  /** Of all results together, in bytes; the newest is always kept. */
  readonly maxBytes: number;
}

export interface PredictionStore {
  /** Keeps the webhooks of predictions; undefined where they do not outlive this process. */
  readonly webhooks?: WebhookStore;
  /**
   * Keeps a request. What was kept is there after this process is killed, where the store outlives it.
   * @throws SconceError `predictions_unwritable` with the reason: a full disk, a folder that is read-only
   */
  create(request: KeptRequest): Promise<void>;
  /** Notes that a kept request has begun: only requests that had begun are suspected when their process dies. */
  begun(id: string): void;
  /** Takes `begun` back: its process ends in order, and not for its sake. */
  interrupted(id: string): void;
  /** Keeps how a prediction ended, kept as a request or not. The first outcome stands. */
  finish(record: EndedRecord): void;
  /** An ended prediction, once it is `written`, or a pending one that another process has. */
  get(id: string): Promise<PredictionRecord | undefined>;
  /**
   * Resolves when the outcome of a kept request is written, or cannot be now. It is told to nobody before: if this process were killed, the next one
   * would run the request again and might come to another outcome.
   */
  written(id: string): Promise<void>;
  /** Takes over the requests that earlier processes with these owners left, oldest first; those that had begun count one more death. `onFull` is called while a full disk cannot keep that count. */
  left(owners: (owner: string) => boolean, onFull?: () => void): AsyncIterable<LeftRequest>;
  /** Whether the file was deleted or replaced while it was open: nothing can be kept any more. */
  readonly isGone?: boolean;
  /** Ended predictions that can be read, and the bytes of their results. */
  readonly retained: { readonly count: number; readonly bytes: number };
  /** Resolves when everything told so far is kept. */
  flush(): Promise<void>;
  close(): Promise<void>;
}
