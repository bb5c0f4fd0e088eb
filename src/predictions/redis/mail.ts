/** Notifications between nodes. A lost notification only delays its reader, which also polls. */

import type { Keys } from "./keys.ts";
import { BLOCK_MS, type RedisLink } from "./redis-link.ts";
import { entriesOf } from "./replies.ts";

/**
 * Notifications. `ended` has the record of an ended prediction, the others have an id.
 * - `read`: the prediction has ended. This node reads the record.
 * - `lost`: another node has ended the prediction, which this node runs.
 * - `events`: the prediction has new events. This node reads the events.
 * - `watched`: an event stream reads the events of the prediction, which this node runs.
 */
const letters = ["ended", "read", "lost", "events", "watched"] as const;
export type Letter = (typeof letters)[number];
export type Letters = (readonly [letter: Letter, value: string])[];

const MAX_LETTERS = 10_000;
/** Milliseconds to wait after a failed read, because the connection opens again meanwhile. */
const RETRY_MS = 100;

export class Mail implements Disposable {
  readonly #link: RedisLink;
  readonly #keys: Keys;
  readonly #node: string;
  #isStopped = false;
  /** Id of the last notification that this node has read. */
  lastId = "0-0";

  constructor(link: RedisLink, keys: Keys, node: string) {
    this.#link = link;
    this.#keys = keys;
    this.#node = node;
  }

  /** Reads notifications until the disposal. @param link a connection for reads that block */
  async read(link: RedisLink, received: (letter: Letter, value: string) => void): Promise<void> {
    const key = this.#keys.mail(this.#node);
    while (!this.#isStopped) {
      try {
        const reply = await link.call("xread", "COUNT", 1000, "BLOCK", BLOCK_MS, "STREAMS", key, this.lastId);
        for (const { id, fields } of entriesOf(reply)) {
          this.lastId = id;
          for (let i = 0; i < fields.length; i += 2) {
            const letter = letters.find((each) => each === fields[i]);
            if (letter !== undefined) received(letter, fields[i + 1] ?? "");
          }
        }
      } catch {
        if (!this.#isStopped) await Bun.sleep(RETRY_MS);
      }
    }
  }

  /** Notifies nodes. Never throws. @param all ids of nodes with spaces between them, and their notification */
  send(all: readonly (readonly [nodes: string, letter: Letters[number]])[]): void {
    const byNode = new Map<string, string[]>();
    for (const [nodes, letter] of all)
      for (const node of nodes.split(" ")) {
        const known = byNode.get(node) ?? [];
        known.push(...letter);
        byNode.set(node, known);
      }
    byNode.delete("");
    for (const [node, fields] of byNode) {
      // A node that reads no mail has no stream, and gets none.
      const key = this.#keys.mail(node);
      this.#link.call("xadd", key, "NOMKSTREAM", "MAXLEN", "~", MAX_LETTERS, "*", ...fields).catch(() => {});
    }
  }

  [Symbol.dispose](): void {
    this.#isStopped = true;
  }
}
