/** Who is still to be told of predictions, in their database: a table of its own, with one commit for all of a turn of the loop. */

import { messageOf } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import type { KeptWebhook, Told, WebhookStore } from "../../webhooks/webhook-store.ts";
import { unusable } from "./prediction-schema.ts";
import type { SqliteLink } from "./sqlite-link.ts";
import { unwritable } from "./sqlite-writer.ts";

/** Before what could not be forgotten is tried again. */
const RETRY_MS = 1000;

interface Kept {
  readonly webhook: string;
  readonly done: PromiseWithResolvers<void>;
}

export class SqliteWebhooks implements WebhookStore {
  readonly #path: string;
  readonly #link: SqliteLink;
  /** By the ids of their predictions. */
  #kept = new Map<string, Kept>();
  /** Before those above are kept: an id may be taken again. */
  #forgotten: string[] = [];
  #isScheduled = false;
  /** Ends with the last commit that was begun. */
  #written = Promise.resolve();

  constructor(path: string, link: SqliteLink) {
    this.#path = path;
    this.#link = link;
  }

  keep(id: string, webhook: string): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#kept.set(id, { webhook, done });
    this.#wake();
    return done.promise;
  }

  forget({ id }: Told): void {
    this.#kept.get(id)?.done.resolve();
    this.#kept.delete(id);
    this.#forgotten.push(id);
    this.#wake();
  }

  async left(owners: (owner: string) => boolean): Promise<readonly KeptWebhook[]> {
    try {
      return (await this.#link.webhooks()).filter(({ id }) => owners(id.slice(0, 1)));
    } catch (error) {
      throw unusable(this.#path, messageOf(error), error);
    }
  }

  /** Writes what it can. */
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
    const [kept, forgotten] = [this.#kept, this.#forgotten];
    [this.#kept, this.#forgotten] = [new Map(), []];
    if (kept.size + forgotten.length === 0) return;
    try {
      const rows = Array.from(kept, ([id, { webhook }]): KeptWebhook => ({ id, webhook }));
      await this.#link.keepWebhooks({ kept: JSON.stringify(rows), forgotten: JSON.stringify(forgotten) });
      for (const { done } of kept.values()) done.resolve();
    } catch (error) {
      for (const { done } of kept.values()) done.reject(unwritable(messageOf(error), error));
      if (forgotten.length === 0) return;
      log.debug(`Webhooks that were told stay in ${this.#path}: ${messageOf(error)}`);
      this.#forgotten.push(...forgotten);
      setTimeout(() => this.#wake(), RETRY_MS).unref();
    }
  }
}
