/** The interface of prediction stores: this process's memory, a database, or the queue of the replicas. */
import { z } from "zod";
import type { DecodedBody } from "../inputs/bodies.ts";
import type { Webhook, WebhookStore } from "../webhooks/webhook.ts";
import type { ModelVersion } from "./model-version.ts";
import type { Origin } from "./predictions.ts";
import type { EndedRecord, Kind, PredictionRecord } from "./record.ts";

/** A request that a process accepted. */
export interface AcceptedRequest {
  readonly id: string;
  readonly kind: Kind;
  /** Inputs in the body. */
  readonly count: number;
  readonly createdAtMs: number;
  /** Time limit, from the creation on. */
  readonly timeoutMs: number;
  /** JSON list of valid inputs. */
  readonly body: DecodedBody["body"];
  /** Digest of kind and body; set for an id that the client chose. */
  readonly digest?: string | undefined;
  readonly origin?: Origin | undefined;
  /** The build that accepted the request. Undefined for requests of earlier releases, and of a queue. */
  readonly model?: ModelVersion | undefined;
  /** `PredictionStore.webhooks` stores it. */
  readonly webhook?: Webhook | undefined;
}

/** A request in a store, complete enough for another process to run it. */
export interface StoredRequest extends AcceptedRequest {
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export function storedBody(body: DecodedBody["body"]): StoredRequest["body"] {
  return typeof body === "function" ? body() : body;
}

/** An accepted request that this process takes over from the store. */
export interface UnfinishedRequest extends StoredRequest {
  /** Milliseconds until the time limit; the time without a process counts. */
  readonly leftMs: number;
  /** Processes that ended while they ran it. */
  readonly deaths: number;
  /** Whether the disk changed the request. */
  readonly isDamaged?: boolean;
  /** Whether a client waits for its end. */
  readonly isWaitedFor?: boolean;
}

/** Where unfinished requests come from. */
export interface RequestSource {
  /** First character of their ids, which names the front. */
  readonly owner: string;
  /** Whether a process of this server accepted them. Another server may still run its requests. */
  readonly isOwnServer: boolean;
  /** The build that accepted them; undefined for requests of earlier releases. */
  readonly model: ModelVersion | undefined;
}

/** Limits of the ended predictions that clients can still read. */
export interface RetentionLimits {
  readonly maxCount: number;
  /** Measured with a monotonic clock. */
  readonly maxAgeMs: number;
  /** Bytes of all results. The newest result is always retained. */
  readonly maxBytes: number;
}

/**
 * `main` locks the file of a store. Members are other processes of the same server, which open it later. `heir` locks it when the older server of an upgrade
 * has ended, while members use it.
 */
export type StoreRole = "main" | "member" | "heir";

export interface PredictionStore {
  /** Undefined where webhooks end with this process. */
  readonly webhooks?: WebhookStore;
  /**
   * Stores a request. A store that outlives the process has it after a kill.
   * @throws SconceError `predictions_unwritable` with the reason, such as a full disk
   */
  create(request: StoredRequest): Promise<void>;
  /** Notes that a stored request runs. Only a running request counts the death of its process. */
  begun(id: string): void;
  /** Reverts `begun` at an orderly end of the process. */
  interrupted(id: string): void;
  /** Stores an outcome, whether the request was stored or not. The first outcome stands. */
  finish(record: EndedRecord): void;
  /** Reads an ended prediction after `written`, or the unfinished prediction of another process. */
  get(id: string): Promise<PredictionRecord | undefined>;
  /**
   * Resolves when the outcome of a stored request is written, or a write has failed. Clients must not see the outcome before: after a kill the next
   * process would run the request again, perhaps with another outcome.
   */
  written(id: string): Promise<void>;
  /**
   * Takes over the unfinished requests of these sources, oldest first. The processes of the sources have ended. Counts a death for each
   * request that was running.
   * @param onFull called while a full disk prevents the writes
   */
  takeOver(isTaken: (source: RequestSource) => boolean, onFull?: () => void): AsyncIterable<UnfinishedRequest>;
  /** The sources of all unfinished requests; undefined for a store that ends with the process. */
  sources?(): Promise<readonly RequestSource[]>;
  /** Whether the database was deleted or replaced while it was open, so that nothing can be stored. */
  readonly isDetached?: boolean;
  /** Whether the last write failed, for example on a full disk. */
  readonly isUnwritable?: boolean;
  /** Retained predictions, and the bytes of their results. */
  readonly retained: { readonly count: number; readonly bytes: number };
  /** Resolves when everything is written. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const originSchema = z.object({
  requestId: z.string(),
  traceId: z.string().optional(),
  spanId: z.string().optional(),
  isSampled: z.boolean().optional(),
  tracestate: z.string().optional(),
  byteFields: z.array(z.string()).optional(),
});

/** An origin as JSON text; empty for an unknown origin. */
export function originText(origin: Origin | undefined): string {
  if (origin === undefined) return "";
  const { requestId, traceId, spanId, isSampled, tracestate, byteFields } = origin;
  return JSON.stringify({ requestId, traceId, spanId, isSampled, tracestate, byteFields });
}

export function originOf(text: string): Origin | undefined {
  if (text === "") return undefined;
  const { traceId, spanId, ...more } = originSchema.parse(JSON.parse(text));
  return { traceId, spanId, ...more };
}
