/** The undelivered webhooks of the queue. A lease gives a webhook to one replica. After the lease, another replica claims it. */
import type { Deliverer, WebhookKey, WebhookStore } from "../webhooks/webhook.ts";
import type { Queue } from "./queue.ts";
import { retry } from "./redis-link.ts";
import { listOf, numberOf, textOf } from "./replies.ts";

/** Maximum webhooks in one call, because the next call waits for it. */
const MAX_IDS = 500;
/** Milliseconds between polls for webhooks that no replica has leased. */
const POLL_MS = 250;
/** Milliseconds in which a delivered webhook is removed. A webhook that stays is sent again. */
const REMOVAL_MS = 60_000;

/** The queue stores a webhook together with its prediction. */
export class QueuedWebhooks implements WebhookStore, Disposable {
  readonly #queue: Queue;
  #isStopped = false;
  #renewedMs = performance.now();

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  remove(key: WebhookKey): void {
    const { link, keys } = this.#queue;
    void retry(() => link.call("zrem", keys.due, memberOf(key)), performance.now() + REMOVAL_MS);
  }

  deliver(webhooks: Deliverer): Promise<void> {
    void this.#poll(webhooks);
    return Promise.resolve();
  }

  [Symbol.dispose](): void {
    this.#isStopped = true;
  }

  /** Renews leases, and claims webhooks that `webhooks` then sends, again and again. */
  async #poll(webhooks: Deliverer): Promise<void> {
    const { keys, link, leaseMs } = this.#queue;
    while (!this.#isStopped) {
      try {
        const nowMs = Math.ceil(this.#queue.nowMs);
        // Nodes that claim a webhook at the same time set the same end of the lease, so that only one of them changes it.
        const untilMs = Math.ceil(nowMs / leaseMs + 1) * leaseMs;
        if (performance.now() - this.#renewedMs > leaseMs / 3) {
          this.#renewedMs = performance.now();
          await this.#lease(webhooks.predictions, untilMs);
        }
        const most = webhooks.hasRoom ? MAX_IDS : 0;
        const found = listOf(await link.call("zrangebyscore", keys.due, "-inf", nowMs, "LIMIT", 0, most)).map(textOf);
        await Promise.all(found.map((member) => this.#claim(member, untilMs, webhooks)));
      } catch {
        // The next poll tries again.
      }
      await new Promise<void>((resolve) => void setTimeout(resolve, Math.min(POLL_MS, leaseMs / 3)).unref());
    }
  }

  async #claim(member: string, untilMs: number, webhooks: Deliverer): Promise<void> {
    const { keys, link } = this.#queue;
    if (numberOf(await link.call("zadd", keys.due, "XX", "GT", "CH", untilMs, member)) === 0) return;
    const [id = "", createdAtMs] = member.split(" ");
    const [created, webhook] = listOf(await link.call("hmget", keys.prediction(id), "created", "webhook")).map(textOf);
    // The prediction has expired, or a later one has the same id.
    if (created !== createdAtMs || !webhook) await link.call("zrem", keys.due, member);
    else webhooks.ended({ id, createdAtMs: Number(createdAtMs) }, JSON.parse(webhook));
  }

  /** Sets the end of the leases of webhooks. */
  async #lease(webhooks: readonly WebhookKey[], untilMs: number): Promise<void> {
    const { keys, link } = this.#queue;
    for (let i = 0; i < webhooks.length; i += MAX_IDS) {
      const page = webhooks.slice(i, i + MAX_IDS).flatMap((key) => [untilMs, memberOf(key)]);
      await link.call("zadd", keys.due, "XX", ...page);
    }
  }
}

/** The member of the sorted set `due`. */
function memberOf({ id, createdAtMs }: WebhookKey): string {
  return `${id} ${createdAtMs}`;
}
