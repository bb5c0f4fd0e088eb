/** The undelivered webhooks of the queue. A lease gives a webhook to one replica. After the lease, another replica claims it. */
import { type Deliverer, type WebhookKey, type WebhookStore, webhookOf } from "../webhooks/webhook.ts";
import type { Queue } from "./queue.ts";
import { listOf, numberOf, textOf } from "./replies.ts";

/** Maximum ids in one call, because the next call waits for it. */
const MAX_IDS = 500;
/** Milliseconds between polls for webhooks that no replica has leased. */
const POLL_MS = 1000;

export class QueuedWebhooks implements WebhookStore, Disposable {
  readonly #queue: Queue;
  #delivered: WebhookKey[] = [];
  #isPolling = false;
  #timer: ReturnType<typeof setInterval> | undefined;
  #renewedMs = performance.now();
  /** Number of undelivered webhooks of ended predictions at the last poll. */
  count = 0;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Does nothing: the queue stores a webhook together with its prediction. */
  add(): Promise<void> {
    return Promise.resolve();
  }

  remove({ id, createdAtMs }: WebhookKey): void {
    this.#delivered.push({ id, createdAtMs });
  }

  undelivered(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  deliver(webhooks: Deliverer): void {
    const { leaseMs } = this.#queue;
    this.#timer = setInterval(() => void this.poll(webhooks), Math.min(POLL_MS, leaseMs / 3));
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Claims webhooks, renews the leases of claimed webhooks, and reports delivered webhooks. Called at intervals. Never throws. */
  async poll(webhooks: Deliverer): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const { leaseMs } = this.#queue;
      const mustRenew = performance.now() - this.#renewedMs > leaseMs / 3;
      if (mustRenew) this.#renewedMs = performance.now();
      await this.#exchange(mustRenew ? webhooks.predictions : [], leaseMs, webhooks);
    } catch {
      // The next poll tries again.
    } finally {
      this.#isPolling = false;
    }
  }

  /** Ends the leases of these webhooks, so that other replicas claim them at once. */
  async release(claimed: readonly WebhookKey[]): Promise<void> {
    await this.#exchange(claimed, 0).catch(() => {});
  }

  /** Removes delivered webhooks, renews leases, and claims webhooks that `webhooks` then sends. */
  async #exchange(renewed: readonly WebhookKey[], leaseMs: number, webhooks?: Deliverer): Promise<void> {
    const { keys, link } = this.#queue;
    const delivered = this.#delivered.splice(0);
    try {
      const nowMs = Math.ceil(await this.#queue.nowMs());
      // Nodes that claim a webhook at the same time set the same end of the lease, so that only one of them changes it.
      const untilMs = leaseMs === 0 ? nowMs : Math.ceil(nowMs / leaseMs + 1) * leaseMs;
      for (let i = 0; i < delivered.length; i += MAX_IDS)
        await link.call("zrem", keys.due, ...delivered.slice(i, i + MAX_IDS).map(memberOf));
      for (let i = 0; i < renewed.length; i += MAX_IDS)
        await link.call(
          "zadd",
          keys.due,
          "XX",
          ...renewed.slice(i, i + MAX_IDS).flatMap((key) => [untilMs, memberOf(key)]),
        );
      const most = webhooks?.hasRoom ? MAX_IDS : 0;
      const found = listOf(await link.call("zrangebyscore", keys.due, "-inf", nowMs, "LIMIT", 0, most)).map(textOf);
      await Promise.all(found.map((member) => this.#claim(member, untilMs, webhooks)));
      this.count = numberOf(await link.call("zcard", keys.due));
    } catch (error) {
      this.#delivered.push(...delivered);
      throw error;
    }
  }

  async #claim(member: string, untilMs: number, webhooks: Deliverer | undefined): Promise<void> {
    const { keys, link } = this.#queue;
    if (numberOf(await link.call("zadd", keys.due, "XX", "GT", "CH", untilMs, member)) === 0) return;
    const [id = "", createdAtMs] = member.split(" ");
    const [created, webhook] = listOf(await link.call("hmget", keys.prediction(id), "created", "webhook")).map(textOf);
    // The prediction has expired, or a later one has the same id.
    if (created !== createdAtMs || !webhook) await link.call("zrem", keys.due, member);
    else webhooks?.ended({ id, createdAtMs: Number(createdAtMs) }, webhookOf(webhook));
  }
}

/** @returns the member of the sorted set `due` */
function memberOf({ id, createdAtMs }: WebhookKey): string {
  return `${id} ${createdAtMs}`;
}
