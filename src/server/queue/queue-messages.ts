/** Requests and answers of `queue.ts`. */
import type { Origin } from "../predictions/predictions.ts";
import type { EndedRecord, Kind } from "../predictions/record.ts";
import type { UnfinishedRequest } from "../predictions/store.ts";
import type { StoredWebhook, Webhook, WebhookKey } from "../webhooks/webhook.ts";

export interface QueuedRequest {
  readonly id: string;
  readonly kind: Kind;
  readonly count: number;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly isWaitedFor: boolean;
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly origin: Origin;
  /** Set for an id that the client chose. The queue then refuses a second prediction with this id. */
  readonly digest?: string | undefined;
  readonly webhook?: Webhook | undefined;
}

/** The creation time, or the limit that refused the request. A duplicate id counts as limit `queue`. `items` counts unfinished inputs. */
export type Created = { readonly createdAtMs: number } | { readonly limit: "queue" | "bytes"; readonly items: number };

/** An ended prediction for the queue. */
export interface QueuedOutcome {
  readonly record: EndedRecord;
  readonly bytes: number;
  /** Whether the bucket may hold the body. */
  readonly hasLargeBody: boolean;
}

export interface Progress {
  readonly id: string;
  readonly startedAtMs: number | undefined;
  readonly itemsDone: number;
  /** Bytes of the logs that the queue has acknowledged, and the logs after these bytes. */
  readonly logBytes: number;
  readonly logs: string;
}

/** Figures of a queue over all replicas. */
export interface QueueFacts {
  /** Unfinished inputs, and their body bytes. */
  readonly items: number;
  readonly bytes: number;
  /** Predictions that workers have ended since the queue was created. */
  readonly ended: number;
  /** Unclaimed and claimed predictions. */
  readonly waiting: number;
  readonly taken: number;
  /** Age of the oldest unclaimed prediction. */
  readonly ageMs: number;
  readonly workers: number;
  /** Retained predictions, and their bytes. */
  readonly kept: number;
  readonly keptBytes: number;
  /** Whether Redis refuses predictions because its memory is full. */
  readonly isFull: boolean;
}

/**
 * A request to the webhooks of a queue: the queue deletes delivered webhooks, renews leases, and claims webhooks
 * without an owner. The reply is `WebhooksClaimed`.
 */
export interface WebhookExchange {
  /** How long this replica owns the webhooks that it claims or renews. */
  readonly leaseMs: number;
  /** Maximum number of webhooks to claim. */
  readonly maxClaimed: number;
  readonly delivered: readonly WebhookKey[];
  readonly renewed: readonly WebhookKey[];
}

export interface WebhooksClaimed {
  /** Webhooks of the queue that are not delivered. */
  readonly count: number;
  readonly claimed: readonly (StoredWebhook & WebhookKey)[];
}

/** A prediction that a worker has claimed. */
export interface ClaimedRequest extends Pick<UnfinishedRequest, "id" | "kind" | "count" | "leftMs"> {
  /** Bytes of the body. */
  readonly bytes: number;
  readonly hasLargeBody: boolean;
  /** Loads the body. `leftMs` of the result excludes the time for that. @throws SconceError `queue_unavailable` */
  readonly load: () => Promise<UnfinishedRequest>;
}

export interface Claimed {
  readonly requests: readonly ClaimedRequest[];
  /** Predictions that failed instead, because too many replicas ended while they ran them. */
  readonly givenUp: number;
}
