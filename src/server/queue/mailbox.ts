/** Notifications for this replica about predictions that its clients wait for, and about predictions that it runs. */
import type { PredictionRecord } from "../predictions/record.ts";
import type { Queue } from "./queue.ts";
import { BLOCK_MS, type RedisLink } from "./redis-link.ts";
import { type ReadRecord, recordOf, type StreamEntry, textOf } from "./replies.ts";

export interface MailboxOptions {
  readonly queue: Queue;
  /** Connection for blocking reads. */
  readonly link: RedisLink;
}

export interface MailListener {
  readonly ended?: (record: PredictionRecord) => void;
  /** The outcome is too large for a notification: read it. */
  readonly endedLong?: (id: string) => void;
  readonly cancelled?: (id: string) => void;
  /** The prediction has new events: read them. */
  readonly events?: (id: string) => void;
  /** A replica has an event stream of the prediction: report its events. */
  readonly watched?: (id: string) => void;
}

/** Notifications with the id of a prediction. */
const idListeners: Readonly<Record<string, "cancelled" | "endedLong" | "events" | "watched">> = {
  cancel: "cancelled",
  long: "endedLong",
  events: "events",
  watched: "watched",
};

/** Pause after a failed read, while the connection is replaced. */
const RETRY_MS = 100;

export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #listeners: MailListener[] = [];
  #isStopped = false;
  /** Id of the last entry that was read. */
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
      const method = idListeners[name];
      if (method === undefined) this.#ended(recordOf(value));
      else for (const listener of this.#listeners) listener[method]?.(textOf(value));
    }
  }

  #ended(read: ReadRecord | null): void {
    if (read === null) return;
    const { record, membersNode } = read;
    for (const { ended, endedLong } of this.#listeners) {
      if (membersNode === undefined) ended?.(record);
      else endedLong?.(record.id);
    }
  }
}
