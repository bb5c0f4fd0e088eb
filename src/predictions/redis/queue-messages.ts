/** Types of the arguments and results of `Queue`. */
import type { EndedRecord } from "../record.ts";
import type { PredictionRequest } from "../request.ts";
import type { Accepted, Claimed as ClaimedRequest, Full } from "../store.ts";
import type { WebhookKey } from "../webhooks/webhook.ts";

export interface QueuedRequest extends Omit<PredictionRequest, "createdAtMs"> {
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly bytes: number;
}

export type Created = Accepted | Full;

/** An ended prediction to write to Redis. */
export interface QueuedOutcome {
  readonly record: EndedRecord;
  readonly bytes: number;
}

export interface Progress {
  readonly id: string;
  readonly startedAtMs: number | undefined;
  readonly itemsDone: number;
  /** Bytes of the logs that Redis has acknowledged. `logs` is the text after these bytes. */
  readonly logBytes: number;
  readonly logs: string;
}

/** Figures of a queue, for all its replicas. */
export interface QueueFacts {
  /** Number of unfinished inputs, and bytes of their bodies. */
  readonly items: number;
  readonly bytes: number;
  /** Number of predictions that replicas have ended since the queue was created. */
  readonly ended: number;
  /** Number of unfinished predictions without a claim (`waiting`), and with a claim (`taken`). */
  readonly waiting: number;
  readonly taken: number;
  /** Milliseconds since the creation of the oldest prediction that no replica has claimed; 0 without such a prediction. */
  readonly ageMs: number;
  readonly workers: number;
  /** Whether Redis refuses new predictions because its memory is full. */
  readonly isFull: boolean;
}

/** Call about the webhooks of a queue. It deletes delivered webhooks, renews this replica's leases, and claims webhooks without a lease. */
export interface WebhookExchange {
  /** Length of a lease in milliseconds. Only the replica with the lease delivers a webhook. */
  readonly leaseMs: number;
  /** Maximum number of webhooks to claim. */
  readonly maxClaimed: number;
  readonly delivered: readonly WebhookKey[];
  readonly renewed: readonly WebhookKey[];
}

export interface WebhooksClaimed {
  /** Number of undelivered webhooks in the queue. */
  readonly count: number;
  readonly claimed: readonly (WebhookKey & { readonly webhook: string })[];
}

export interface Claimed {
  readonly requests: readonly ClaimedRequest[];
  /** Number of predictions that failed instead of being claimed, because too many replicas ended while they ran them. */
  readonly givenUp: number;
}
