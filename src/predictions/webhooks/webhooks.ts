/** Sends the webhook messages of ended predictions. After a failure, sends a message again, until the store evicts the prediction. */

import { version } from "../../../package.json";
import { oneLine, SconceError } from "../../base/errors.ts";
import { LogFields, log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import { urlLabel } from "../../base/url-label.ts";
import { AddressGuard } from "../../machine/network/address-guard.ts";
import { GuardedRequests } from "../../machine/network/guarded-requests.ts";
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import type { PredictionMetrics } from "../metrics.ts";
import { hasEnded, type PredictionRecord } from "../record.ts";
import type { Store } from "../store.ts";
import type { Deliverer, Webhook, WebhookKey } from "./webhook.ts";
import { type WebhookMessage, WebhookSender } from "./webhook-sender.ts";

export interface WebhooksOptions {
  /** The options of `serve` for webhooks. */
  readonly config: { readonly webhookSecret: readonly string[]; readonly allowPrivateUrls: boolean };
  readonly json: (record: PredictionRecord) => string;
  readonly metrics: Pick<PredictionMetrics, "webhook">;
  readonly store: Pick<Store, "webhooks" | "written" | "read">;
  readonly memory: MemoryAccount;
}

/** If undelivered webhooks take more than this fraction of the memory limit, predictions with webhooks are refused. */
const MAX_OF_MEMORY = 1 / 16;
/** Maximum length of the data in a message. Longer data are left out, and the receiver can read them from the server. */
const MAX_DATA_LENGTH = 2 ** 20;
/** JSON member that a message has instead of data that are too long. */
const TRUNCATED = '"truncated":true';
/** Bytes of memory to count for a webhook in addition to its URL. */
const WAITING_BYTES = 2000;
/** Milliseconds before the second attempt. The pause doubles for each further attempt. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 300_000;

/** A webhook of an ended prediction, whose message is not delivered. */
interface Waiting extends WebhookKey {
  readonly webhook: Webhook;
  readonly sinceMs: number;
}

export class Webhooks implements Deliverer {
  readonly #options: WebhooksOptions;
  readonly #guard: AddressGuard;
  readonly #sender: WebhookSender;
  /** Undelivered webhooks by id and time of creation, in the order in which their predictions ended. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #charge: Charge;
  #isStopped = false;

  constructor(options: WebhooksOptions) {
    const { webhookSecret: secrets, allowPrivateUrls: allowPrivate } = options.config;
    const { memory } = options;
    this.#options = options;
    this.#guard = new AddressGuard({ allowPrivate });
    const requests = new GuardedRequests(this.#guard);
    this.#sender = new WebhookSender({ requests, secrets, userAgent: `sconce/${version}`, memory });
    // Charged as results, because the memory account admits any request when only results are in memory.
    this.#charge = memory.add("results", 0);
  }

  /** Number of undelivered webhooks of ended predictions. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Milliseconds since the end of the oldest prediction with an undelivered webhook; 0 if there is none. */
  get oldestMs(): number {
    const [oldest] = this.#waiting.values();
    return oldest === undefined ? 0 : performance.now() - oldest.sinceMs;
  }

  get predictions(): readonly WebhookKey[] {
    return [...this.#waiting.values()];
  }

  /** Whether the limits allow one more webhook. */
  get hasRoom(): boolean {
    return this.#charge.bytes <= MAX_OF_MEMORY * this.#options.memory.maxBytes;
  }

  /** Checks a new webhook. @throws SconceError `webhook_refused`, `queue_full` */
  admit({ url }: Webhook): void {
    try {
      this.#guard.literal(new URL(url).hostname);
    } catch (error) {
      throw new SconceError("webhook_refused", error instanceof SconceError ? error.message : "", { cause: error });
    }
    if (!this.hasRoom) throw new SconceError("queue_full", "too many webhooks wait to be told; try again later");
  }

  /**
   * Sends the webhooks of ended predictions that other processes have left in the store.
   * @param owners selects predictions by the first character of their ids
   */
  async resume(owners: (owner: string) => boolean): Promise<void> {
    await this.#options.store.webhooks?.deliver(this, owners);
  }

  /** Starts sending the message of an ended prediction, which the store has. Never throws. */
  ended({ id, createdAtMs }: WebhookKey, webhook: Webhook): void {
    const key = `${id} ${createdAtMs}`;
    if (this.#waiting.has(key)) return;
    const bytes = WAITING_BYTES + webhook.url.length;
    const waiting: Waiting = { id, createdAtMs, webhook, sinceMs: performance.now() };
    this.#charge.grow(bytes);
    this.#waiting.set(key, waiting);
    void this.#deliver(waiting).finally(() => {
      this.#charge.grow(-bytes);
      this.#waiting.delete(key);
    });
  }

  /** Stops sending. Undelivered webhooks stay in the store for another process. */
  stop(): void {
    this.#isStopped = true;
    this.#sender.stop();
  }

  async #deliver(waiting: Waiting): Promise<void> {
    const { metrics, store } = this.#options;
    const { id, webhook } = waiting;
    const receiver = new URL(webhook.url);
    for (let failures = 0; ; failures++) {
      const { result, why, afterMs = 0 } = await this.#sender.send(receiver, () => this.#message(waiting));
      if (this.#isStopped) return;
      metrics.webhook(result);
      if (result !== "told") warn(id, result, receiver, why);
      if (result !== "failed") break;
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.75 + Math.random() / 2);
      await sleep(Math.max(delayMs, afterMs));
    }
    store.webhooks?.remove(waiting);
  }

  /** The message; undefined if the store has evicted the prediction, or a new prediction has its id. */
  async #message({ id, createdAtMs }: WebhookKey): Promise<WebhookMessage | undefined> {
    const { store, json } = this.#options;
    await store.written(id);
    const record = await store.read(id);
    if (record?.createdAtMs !== createdAtMs) return undefined;
    if (!hasEnded(record)) throw new Error("it has not ended");
    const { kind, outcome, finishedAtMs } = record;
    const isLarge = outcome.members.length > MAX_DATA_LENGTH;
    const shown = isLarge ? { ...record, outcome: { ...outcome, members: TRUNCATED } } : record;
    return {
      id: messageId(record),
      type: `${kind}.completed`,
      occurredAtMs: finishedAtMs,
      data: json(shown),
    };
  }
}

/**
 * The `webhook-id` of a message: the same for each attempt and from each server. A client can choose an id again
 * after eviction, or at another model, so a chosen id alone does not identify the message.
 */
function messageId({ id, digest, createdAtMs }: PredictionRecord): string {
  return digest === undefined ? `msg_${id}` : `msg_${id}_${createdAtMs}`;
}

/** Checks a new webhook. @throws SconceError `webhook_refused`, also on a server without --webhook-secret, or `queue_full` */
export function admitWebhook(webhooks: Webhooks | undefined, webhook: Webhook): void {
  if (webhooks === undefined) {
    const message = "this server tells nobody of predictions: it has no --webhook-secret to sign messages with";
    throw new SconceError("webhook_refused", message);
  }
  webhooks.admit(webhook);
}

const results = { failed: "tried again", given_up: "given up" } as const;

function warn(id: string, result: keyof typeof results, url: URL, why: string): void {
  logLimit.write(`webhook_${result}`, (...more) =>
    log.warn(
      `A webhook at ${urlLabel(url)} is ${results[result]}: ${oneLine(why)}`,
      ...more,
      new LogFields({ prediction_id: id }),
    ),
  );
}

/** Sleeps without keeping the process alive. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
