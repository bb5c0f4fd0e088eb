/** Notifications between replicas. A lost notification only delays its reader, which also polls. */
import { type EndedRecord, hasEnded, type PredictionRecord } from "../record.ts";
import type { Keys } from "./keys.ts";
import { entriesOf, listOf, numberOf, recordOf, textOf, valuesOf } from "./record-fields.ts";
import { BLOCK_MS, type RedisLink } from "./redis-link.ts";

export interface MailOptions {
  readonly link: RedisLink;
  readonly keys: Keys;
  /** Id of this replica. */
  readonly node: string;
  /** Milliseconds for which Redis keeps unread notifications. */
  readonly keptMs: number;
}

/** An outcome that this replica has sent to Redis. */
export interface QueuedOutcome {
  readonly record: EndedRecord;
  readonly bytes: number;
}

export interface MailListener {
  readonly ended?: (record: PredictionRecord) => void;
  /** A prediction has ended, and the listener must read it. */
  readonly read?: (id: string) => void;
  readonly canceled?: (id: string) => void;
  /** A prediction has new events, which the listener must read. */
  readonly events?: (id: string) => void;
  /** An event stream of any replica watches a prediction that this replica runs. The listener must report events. */
  readonly watched?: (id: string) => void;
}

export type Letter = Exclude<keyof MailListener, "ended">;

/** Largest outcome in a notification, in bytes. Replicas read a larger outcome. */
const MAX_OUTCOME_BYTES = 65_536;
const MAX_LETTERS = 10_000;
/** Milliseconds to wait after a failed read, because the connection opens again meanwhile. */
const RETRY_MS = 100;

export class Mail implements Disposable {
  readonly #options: MailOptions;
  readonly #listeners: MailListener[] = [];
  #isStopped = false;
  /** Id of the last notification that was read. */
  lastId = "0-0";

  constructor(options: MailOptions) {
    this.#options = options;
  }

  listen(listener: MailListener): void {
    this.#listeners.push(listener);
  }

  /** Reads notifications until the disposal. @param link a connection for reads that block */
  async read(link: RedisLink): Promise<void> {
    const { keys, node } = this.#options;
    while (!this.#isStopped) {
      try {
        const options = ["COUNT", 1000, "BLOCK", BLOCK_MS, "STREAMS", keys.mail(node), this.lastId];
        for (const { id, fields } of entriesOf(await link.call("xread", ...options))) {
          this.lastId = id;
          this.#deliver(fields.map(textOf));
        }
      } catch {
        if (!this.#isStopped) await Bun.sleep(RETRY_MS);
      }
    }
  }

  [Symbol.dispose](): void {
    this.#isStopped = true;
  }

  /** Notifies nodes. @param nodes ids with spaces between them */
  notify(nodes: string, letter: Letter, id: string): void {
    for (const node of nodes.split(" ")) this.#send(node, [letter, id]);
  }

  /**
   * Notifies the waiting nodes of ended predictions.
   * @param reply the time, then ids and nodes of predictions
   * @param outcomes outcomes of this replica
   */
  announce(reply: unknown, outcomes: readonly QueuedOutcome[] = []): void {
    const [now, ...ended] = listOf(reply);
    const own = new Map(outcomes.map((each) => [each.record.id, each]));
    const letters = new Map<string, string[]>();
    for (let i = 0; i < ended.length; i += 2) {
      const [id, nodes] = [textOf(ended[i]), textOf(ended[i + 1])];
      if (nodes === "") continue;
      const outcome = own.get(id);
      const isShort = outcome !== undefined && outcome.bytes <= MAX_OUTCOME_BYTES;
      const letter = isShort ? ["ended", JSON.stringify(valuesOf(outcome.record, numberOf(now)))] : ["read", id];
      for (const node of nodes.split(" ")) {
        const known = letters.get(node);
        if (known === undefined) letters.set(node, [...letter]);
        else known.push(...letter);
      }
    }
    for (const [node, each] of letters) this.#send(node, each);
  }

  /** @param letters names and values of notifications by turns */
  #send(node: string, letters: readonly string[]): void {
    if (node === "") return;
    const { link, keys, keptMs } = this.#options;
    const key = keys.mail(node);
    link.call("xadd", key, "MAXLEN", "~", MAX_LETTERS, "*", ...letters).catch(() => {});
    link.call("pexpire", key, keptMs).catch(() => {});
  }

  #deliver(letters: readonly string[]): void {
    for (let i = 0; i < letters.length; i += 2) {
      const [letter, value = ""] = letters.slice(i, i + 2);
      for (const listener of this.#listeners) {
        if (letter === "ended") {
          const record = recordOf(JSON.parse(value));
          if (record !== undefined && hasEnded(record)) listener.ended?.(record);
        } else if (letter === "read" || letter === "canceled" || letter === "events" || letter === "watched") {
          listener[letter]?.(value);
        }
      }
    }
  }
}
