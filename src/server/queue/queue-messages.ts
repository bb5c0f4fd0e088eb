/** What replicas tell a queue, and what it tells them. */
import type { Origin } from "../predictions/predictions.ts";
import type { EndedRecord, Kind } from "../predictions/record.ts";
import type { LeftRequest } from "../predictions/store.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { KeptWebhook, Told } from "../webhooks/webhook-store.ts";

export interface QueuedRequest {
  readonly id: string;
  readonly kind: Kind;
  readonly count: number;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly isWaitedFor: boolean;
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly origin: Origin;
  /** Where its client chose the id: it is created only where there is none with it. */
  readonly digest?: string | undefined;
  readonly webhook?: Webhook | undefined;
}

/** When it was created, or which limit refused it, the first where there is one with its id already; with what had not ended then. */
export type Created = { readonly createdAtMs: number } | { readonly limit: "queue" | "bytes"; readonly items: number };

/** How a prediction ended, and what the queue has to know for that. */
export interface End {
  readonly record: EndedRecord;
  readonly bytes: number;
  /** Whether its body may lie where large values do. */
  readonly hasLargeBody: boolean;
}

export interface Progress {
  readonly id: string;
  readonly startedAtMs: number | undefined;
  readonly itemsDone: number;
  /** Bytes of the logs that were told before, and what came since. */
  readonly logBytes: number;
  readonly logs: string;
}

export interface QueueFacts {
  /** Of all that has not ended. */
  readonly items: number;
  readonly bytes: number;
  /** Inputs that have ended since the queue was made. */
  readonly endedItems: number;
  /** Predictions that no worker has, and that one has. */
  readonly waiting: number;
  readonly taken: number;
  /** Of the oldest that no worker has. */
  readonly ageMs: number;
  readonly workers: number;
  /** Ended ones that can be read, and their bytes. */
  readonly kept: number;
  readonly keptBytes: number;
}

/** A look at the webhooks of a queue. */
export interface WebhookTurn {
  /** For how long others leave to this process what it takes. */
  readonly leaseMs: number;
  readonly most: number;
  readonly told: readonly Told[];
  readonly ours: readonly Told[];
}

export interface WebhooksTaken {
  /** Of predictions whose end was not told. */
  readonly count: number;
  readonly due: readonly (KeptWebhook & Told)[];
}

/** One that a worker is given. */
export interface TakenRequest extends Pick<LeftRequest, "id" | "kind" | "count" | "leftMs"> {
  /** Of its body. */
  readonly bytes: number;
  /** Whether its body may lie where large values do. */
  readonly hasLargeBody: boolean;
  /** The whole of it, with what is left of its time then: a large body takes long to come. @throws SconceError `queue_unavailable` */
  readonly load: () => Promise<LeftRequest>;
}

/** What a worker is given. */
export interface Taken {
  readonly requests: readonly TakenRequest[];
  /** Given up, as it was in the hands of too many workers that ended. */
  readonly givenUp: number;
}
