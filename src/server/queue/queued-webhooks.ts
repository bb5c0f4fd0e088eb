/** Whom the replicas of a queue tell how its predictions end: each is one replica's to tell, and another's when that gives no sign any more. */
import { webhookOf } from "../webhooks/webhook.ts";
import type { Told, WebhookStore } from "../webhooks/webhook-store.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import type { Queue } from "./queue.ts";

/** Of one call, which holds up everybody else's. */
const MAX_IDS = 500;

export class QueuedWebhooks implements WebhookStore {
  readonly #queues: () => readonly Queue[];
  #told: Told[] = [];
  #isLooking = false;
  #renewedMs = performance.now();
  /** Of all queues, as they were looked at last. */
  count = 0;

  /** @param queues those of other builds too, which may have no replica any more */
  constructor(queues: () => readonly Queue[]) {
    this.#queues = queues;
  }

  /** They are, with their predictions. */
  keep(): Promise<void> {
    return Promise.resolve();
  }

  forget({ id, createdAtMs }: Told): void {
    this.#told.push({ id, createdAtMs });
  }

  left(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  /** To be called from time to time: takes what is to be told, and says that this process goes on telling what it has. Never throws. */
  async look(webhooks: Webhooks): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const leaseMs = this.#queues()[0]?.leaseMs ?? 0;
      const isLate = performance.now() - this.#renewedMs > leaseMs / 3;
      if (isLate) this.#renewedMs = performance.now();
      await this.#exchange(isLate ? webhooks.predictions : [], leaseMs, webhooks);
    } catch {
      // The next one is soon.
    } finally {
      this.#isLooking = false;
    }
  }

  /** Leaves to others what was not told. */
  async release(ours: readonly Told[]): Promise<void> {
    await this.#exchange(ours, 0).catch(() => {});
  }

  /** @param webhooks which tells more; undefined if nothing is taken */
  async #exchange(ours: readonly Told[], leaseMs: number, webhooks?: Webhooks): Promise<void> {
    const told = this.#told.splice(0);
    let count = 0;
    try {
      for (const queue of this.#queues()) {
        for (let i = 0; i === 0 || i < Math.max(told.length, ours.length); i += MAX_IDS) {
          const part = { told: told.slice(i, i + MAX_IDS), ours: ours.slice(i, i + MAX_IDS) };
          const taken = await queue.webhooks({ ...part, leaseMs, most: webhooks?.hasRoom ? MAX_IDS : 0 });
          for (const due of taken.due) webhooks?.ended(due, webhookOf(due.webhook));
          if (i === 0) count += taken.count;
        }
      }
      this.count = count;
    } catch (error) {
      this.#told.push(...told);
      throw error;
    }
  }
}
