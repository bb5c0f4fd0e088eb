/** Notifications for this replica: outcomes that its clients wait for, and cancelled predictions that it runs. */
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
}

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
      if (name === "cancel") for (const { cancelled } of this.#listeners) cancelled?.(textOf(value));
      else if (name === "events") for (const { events } of this.#listeners) events?.(textOf(value));
      else if (name === "long") for (const { endedLong } of this.#listeners) endedLong?.(textOf(value));
      else this.#ended(recordOf(value));
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
