/** Receives notifications from Redis: about predictions that clients of this replica wait for, and about predictions that it runs. */
import type { PredictionRecord } from "../record.ts";
import type { Queue } from "./queue.ts";
import { recordOf, type StreamEntry, textOf } from "./record-fields.ts";
import { BLOCK_MS, type RedisLink } from "./redis-link.ts";

export interface MailboxOptions {
  readonly queue: Queue;
  /** Redis connection for reads that block. */
  readonly link: RedisLink;
}

export interface MailListener {
  readonly ended?: (record: PredictionRecord) => void;
  /** Called instead of `ended` if the notification does not have the whole record. The listener must read it. */
  readonly endedLong?: (id: string) => void;
  readonly cancelled?: (id: string) => void;
  /** Called when a prediction has new events, which the listener must read. */
  readonly events?: (id: string) => void;
  /** Called when an event stream of any replica watches a prediction that this replica runs. It must then report events. */
  readonly watched?: (id: string) => void;
}

/** Listener methods of notifications with only the id of a prediction. */
const idListeners: Readonly<Record<string, "cancelled" | "endedLong" | "events" | "watched">> = {
  cancel: "cancelled",
  read: "endedLong",
  events: "events",
  watched: "watched",
};

/** Milliseconds to wait after a failed read, because the connection opens again meanwhile. */
const RETRY_MS = 100;

export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #listeners: MailListener[] = [];
  #isStopped = false;
  /** Id of the last notification that was read. */
  lastId = "0-0";

  constructor(options: MailboxOptions) {
    this.#options = options;
    void this.#read();
  }

  listen(listener: MailListener): void {
    this.#listeners.push(listener);
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #read(): Promise<void> {
    const { queue, link } = this.#options;
    while (!this.#isStopped) {
      try {
        for (const entry of await queue.readMail(link, this.lastId, BLOCK_MS)) this.#deliver(entry);
      } catch {
        if (!this.#isStopped) await Bun.sleep(RETRY_MS);
      }
    }
  }

  #deliver({ id, fields }: StreamEntry): void {
    this.lastId = id;
    for (let i = 0; i < fields.length; i += 2) {
      const [name, value] = [textOf(fields[i]), fields[i + 1]];
      if (name === "end") {
        this.#ended(value);
        continue;
      }
      const method = idListeners[name];
      if (method === undefined) continue;
      for (const listener of this.#listeners) listener[method]?.(textOf(value));
    }
  }

  #ended(value: unknown): void {
    const record = recordOf(JSON.parse(textOf(value)));
    if (record !== undefined) for (const { ended } of this.#listeners) ended?.(record);
  }
}
