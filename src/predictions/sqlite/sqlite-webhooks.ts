/** Stores undelivered webhooks in the database, in the same commits as requests and outcomes. */
import type { StoredWebhook, WebhookKey, WebhookStore } from "../webhooks/webhook.ts";
import type { SqliteWriter } from "./sqlite-writer.ts";

export class SqliteWebhooks implements WebhookStore {
  readonly #writer: SqliteWriter;
  readonly #read: () => Promise<readonly StoredWebhook[]>;

  /** @param read reads all webhooks of the database */
  constructor(writer: SqliteWriter, read: () => Promise<readonly StoredWebhook[]>) {
    this.#writer = writer;
    this.#read = read;
  }

  add(id: string, webhook: string): Promise<void> {
    return this.#writer.addWebhook(id, webhook);
  }

  remove({ id }: WebhookKey): void {
    this.#writer.removeWebhook(id);
  }

  async undelivered(owners: (owner: string) => boolean): Promise<readonly StoredWebhook[]> {
    return (await this.#read()).filter(({ id }) => owners(id.slice(0, 1)));
  }
}
