/** The interface of stores of predictions: memory, an SQLite database, or the Redis queue of several replicas. */
import { z } from "zod";
import type { DecodedBody } from "../pipeline/inputs/body.ts";
import type { ModelVersion } from "./model-version.ts";
import type { Origin } from "./predictions.ts";
import type { EndedRecord, Kind, PredictionRecord } from "./record.ts";
import type { Webhook, WebhookStore } from "./webhooks/webhook.ts";

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
  /** The version of the model that accepted the request. Undefined in a Redis queue, and for old releases. */
  readonly model?: ModelVersion | undefined;
  /** The webhook. `PredictionStore.webhooks` stores it, not `create`. */
  readonly webhook?: Webhook | undefined;
}

/** A request as a store keeps it, so that another process can run it. */
export interface StoredRequest extends AcceptedRequest {
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export function storedBody(body: DecodedBody["body"]): StoredRequest["body"] {
  return typeof body === "function" ? body() : body;
}

/** A stored request without an outcome, which this process takes over from another. */
export interface UnfinishedRequest extends StoredRequest {
  /** Milliseconds until the time limit, which also counts the time without a running server. */
  readonly leftMs: number;
  /** Number of processes that died while the request ran. */
  readonly deaths: number;
  /** Whether the store has lost the body. */
  readonly isLost?: boolean;
  /** Whether a client waits for the outcome. */
  readonly isWaitedFor?: boolean;
}

/** The origin of unfinished requests. A process decides by it whether to take them over. */
export interface RequestSource {
  /** First character of the ids, which stands for the HTTP process that accepted the requests. */
  readonly owner: string;
  /** Whether this server accepted the requests. Another server with the same store may still run its requests. */
  readonly isOwnServer: boolean;
  /** The version of the model that accepted the requests; undefined for requests of old releases. */
  readonly model: ModelVersion | undefined;
}

/** Limits of ended predictions. Beyond them the store evicts the oldest, which clients can then no longer read. */
export interface RetentionLimits {
  readonly maxCount: number;
  /** Maximum age in milliseconds of a monotonic clock. */
  readonly maxAgeMs: number;
  /** Maximum bytes of all results. The newest result stays even if it is larger. */
  readonly maxBytes: number;
}

/**
 * The role of a process that opens the store. `main` locks its file for the server. `member` opens the file without a
 * lock: a later process of the server, or a check at the start of --take-over. `heir` is the main process of a server with
 * --take-over: it waits for the lock of the server that it replaces.
 */
export type StoreRole = "main" | "member" | "heir";

export interface PredictionStore {
  /** Undefined if webhooks are not stored. */
  readonly webhooks?: WebhookStore;
  /**
   * Stores a request. A store on disk has it even if the process is killed afterwards.
   * @throws SconceError `predictions_unwritable` with the reason, such as a full disk
   */
  create(request: StoredRequest): Promise<void>;
  /** Records that a stored request runs. If its process dies meanwhile, `takeOver` counts a death. */
  begun(id: string): void;
  /** Records that a request no longer runs, because its process exits in an orderly way, which counts no death. */
  interrupted(id: string): void;
  /**
   * Stores an outcome. Without a stored request the client has waited, so the outcome stays in memory only, readable until it is evicted or the process
   * ends. Does nothing if the id has an outcome already.
   */
  finish(record: EndedRecord): void;
  /**
   * Reads an ended prediction, or an unfinished one whose request is stored. Waits until the outcome of a stored
   * request is written, or writing it has failed.
   */
  get(id: string): Promise<PredictionRecord | undefined>;
  /**
   * Resolves when an outcome is on disk, or writing it has failed. Clients must not see it before: after a kill, the
   * request runs again, perhaps with another outcome.
   */
  written(id: string): Promise<void>;
  /**
   * Takes over unfinished requests, oldest first. Counts a death of each request that was running.
   * @param isTaken whether to take over requests of this origin, whose processes have ended
   * @param onFull called when a full disk stops the loop, which continues when the disk has room
   */
  takeOver(isTaken: (source: RequestSource) => boolean, onFull?: () => void): AsyncIterable<UnfinishedRequest>;
  /** The origins of all unfinished requests. Undefined for a store that does not survive its process. */
  sources?(): Promise<readonly RequestSource[]>;
  /** Whether the file of the store was deleted or replaced, so that nothing can be stored. */
  readonly isDetached?: boolean;
  /** Whether writing fails, for example because the disk is full. */
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
