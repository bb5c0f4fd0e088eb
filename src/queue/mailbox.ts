/** What this process is told by others: ends that it waits for, and cancelled predictions that it has. */
import type { PredictionRecord } from "../predictions/record.ts";
import type { Queue } from "./queue.ts";
import { BLOCK_MS, type RedisLink } from "./redis-link.ts";
import { recordOf, type StreamEntry, textOf } from "./replies.ts";

export interface MailboxOptions {
  readonly queue: Queue;
  /** For reads that block. */
  readonly link: RedisLink;
}

export interface MailListener {
  /** @param isWhole whether the members are there; else they are to be read */
  ended?(record: PredictionRecord, isWhole: boolean): void;
  cancelled?(id: string): void;
}

/** Before a read that failed is tried again: the connection is made anew meanwhile. */
const RETRY_MS = 100;

export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #listeners: MailListener[] = [];
  #isStopped = false;
  /** Entry that was read last. */
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
    const cancelled = fields.get("cancel");
    if (cancelled !== undefined) {
      for (const listener of this.#listeners) listener.cancelled?.(textOf(cancelled));
      return;
    }
    const members = fields.get("members");
    const read = recordOf([fields.get("head"), fields.get("logs"), members]);
    if (read === null) return;
    const isWhole = members !== undefined && !read.isLarge;
    for (const listener of this.#listeners) listener.ended?.(read.record, isWhole);
  }
}
