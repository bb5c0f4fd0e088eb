/** Stores undelivered webhooks in the database. Changes within one turn of the event loop share a commit. */

import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { StoredWebhook, WebhookKey, WebhookStore } from "../webhooks/webhook.ts";
import { unusable, unwritable } from "./database-fault.ts";
import type { DatabaseThread } from "./database-thread.ts";

/** Milliseconds until a failed removal is tried again. */
const RETRY_MS = 1000;

interface Added {
  readonly webhook: string;
  readonly done: PromiseWithResolvers<void>;
}

export class SqliteWebhooks implements WebhookStore {
  readonly #path: string;
  readonly #thread: DatabaseThread;
  /** Webhooks that the next commit adds, by id of the prediction. */
  #added = new Map<string, Added>();
  /** Ids that the next commit removes, before it adds webhooks: a new prediction may have the same id. */
  #removed: string[] = [];
  #isScheduled = false;
  /** Settles at the end of the last commit. */
  #written = Promise.resolve();

  constructor(path: string, thread: DatabaseThread) {
    this.#path = path;
    this.#thread = thread;
  }

  add(id: string, webhook: string): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#added.set(id, { webhook, done });
    this.#wake();
    return done.promise;
  }

  remove({ id }: WebhookKey): void {
    this.#added.get(id)?.done.resolve();
    this.#added.delete(id);
    this.#removed.push(id);
    this.#wake();
  }

  async undelivered(owners: (owner: string) => boolean): Promise<readonly StoredWebhook[]> {
    try {
      const all = await this.#thread.call("webhooks", undefined);
      return all.filter(({ id }) => owners(id.slice(0, 1)));
    } catch (error) {
      throw unusable(this.#path, messageOf(error), error);
    }
  }

  /** Writes the remaining changes once. Ignores a failure. */
  async stop(): Promise<void> {
    await this.#written;
    await this.#write();
  }

  #wake(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#written = this.#written.then(() => this.#write());
    });
  }

  async #write(): Promise<void> {
    this.#isScheduled = false;
    const [added, removed] = [this.#added, this.#removed];
    [this.#added, this.#removed] = [new Map(), []];
    if (added.size + removed.length === 0) return;
    try {
      const rows = Array.from(added, ([id, { webhook }]): StoredWebhook => ({ id, webhook }));
      await this.#thread.call("writeWebhooks", { added: JSON.stringify(rows), removed: JSON.stringify(removed) });
      for (const { done } of added.values()) done.resolve();
    } catch (error) {
      for (const { done } of added.values()) done.reject(unwritable(messageOf(error), error));
      if (removed.length === 0) return;
      log.debug(`Delivered webhooks stay in ${this.#path}: ${messageOf(error)}`);
      this.#removed.push(...removed);
      setTimeout(() => this.#wake(), RETRY_MS).unref();
    }
  }
}
