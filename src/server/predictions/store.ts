/** The interface of stores of predictions: memory, an SQLite database, or the Redis queue of several replicas. */
import { z } from "zod";
import type { DecodedBody } from "../inputs/bodies.ts";
import type { Webhook, WebhookStore } from "../webhooks/webhook.ts";
import type { ModelVersion } from "./model-version.ts";
import type { Origin } from "./predictions.ts";
import type { EndedRecord, Kind, PredictionRecord } from "./record.ts";

/** A request for a prediction that the server has accepted. */
export interface AcceptedRequest {
  readonly id: string;
  readonly kind: Kind;
  /** Number of inputs in the body. */
  readonly count: number;
  readonly createdAtMs: number;
  /** Time limit in milliseconds, from the creation on. */
  readonly timeoutMs: number;
  /** A JSON list of inputs that match the schema. */
  readonly body: DecodedBody["body"];
  /** Digest of the kind and the body; set if the client chose the id. */
  readonly digest?: string | undefined;
  readonly origin?: Origin | undefined;
  /** The version of the model that accepted the request. Undefined for requests of old releases, and for requests in a Redis queue. */
  readonly model?: ModelVersion | undefined;
  /** The webhook, which is stored separately, by `PredictionStore.webhooks`. */
  readonly webhook?: Webhook | undefined;
}

/** A request in a store, with all that another process needs to run it. */
export interface StoredRequest extends AcceptedRequest {
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export function storedBody(body: DecodedBody["body"]): StoredRequest["body"] {
  return typeof body === "function" ? body() : body;
}

/** A stored request without an outcome, which this process takes over. */
export interface UnfinishedRequest extends StoredRequest {
  /** Milliseconds until the time limit. Time without a running server counts too. */
  readonly leftMs: number;
  /** Number of processes that died while they ran the request. */
  readonly deaths: number;
  /** Whether a fault of the disk changed the request. */
  readonly isDamaged?: boolean;
  /** Whether a client waits for the end. */
  readonly isWaitedFor?: boolean;
}

/** The origin of unfinished requests, from which a process decides to take them over. */
export interface RequestSource {
  /** First character of the ids, which stands for the HTTP process that accepted the requests. */
  readonly owner: string;
  /** Whether a process of this server accepted the requests. Another server with the same store may still run its requests. */
  readonly isOwnServer: boolean;
  /** The version of the model that accepted the requests; undefined for requests of old releases. */
  readonly model: ModelVersion | undefined;
}

/** Limits for ended predictions, which clients can read until the store evicts them. */
export interface RetentionLimits {
  readonly maxCount: number;
  /** Maximum age in milliseconds of a monotonic clock. */
  readonly maxAgeMs: number;
  /** Maximum bytes of all results. The newest result is never evicted. */
  readonly maxBytes: number;
}

/**
 * The role of a process that opens the store. `main` locks the store's file for its server. `member` is another process of the same server, which
 * opens the store later. `heir` belongs to the newer server of an upgrade, and locks the file when the older server has ended.
 */
export type StoreRole = "main" | "member" | "heir";

export interface PredictionStore {
  /** Undefined if webhooks are not stored. */
  readonly webhooks?: WebhookStore;
  /**
   * Stores a request. A store on disk still has it after the process is killed.
   * @throws SconceError `predictions_unwritable` with the reason, such as a full disk
   */
  create(request: StoredRequest): Promise<void>;
  /** Records that a stored request is running. If the process dies, only running requests count a death. */
  begun(id: string): void;
  /** Records that a request is no longer running, because its process exits in an orderly way. */
  interrupted(id: string): void;
  /** Stores an outcome, even if the request was not stored. Does not replace an earlier outcome. */
  finish(record: EndedRecord): void;
  /** Reads an ended prediction after `written` has resolved, or an unfinished prediction of another process. */
  get(id: string): Promise<PredictionRecord | undefined>;
  /**
   * Resolves when the outcome of a stored request is on disk, or writing it has failed. Clients must not see the outcome before: after a kill, the
   * next process would run the request again, perhaps with another outcome.
   */
  written(id: string): Promise<void>;
  /**
   * Takes over unfinished requests, oldest first. Counts a death for each request that was running.
   * @param isTaken whether to take over requests of this origin, whose processes have ended
   * @param onFull called while a full disk prevents the writes
   */
  takeOver(isTaken: (source: RequestSource) => boolean, onFull?: () => void): AsyncIterable<UnfinishedRequest>;
  /** The origins of all unfinished requests; undefined for a store that is lost with its process. */
  sources?(): Promise<readonly RequestSource[]>;
  /** Whether the file of the store was deleted or replaced while the process uses it. Nothing can be stored then. */
  readonly isDetached?: boolean;
  /** Whether the last write has failed, for example because the disk is full. */
  readonly isUnwritable?: boolean;
  /** Number of retained predictions, and bytes of their results. */
  readonly retained: { readonly count: number; readonly bytes: number };
  /** Resolves when all earlier changes are written. */
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

/** Converts the facts about an HTTP request to JSON; empty if they are unknown. */
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
