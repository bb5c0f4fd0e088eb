/** Bodies and outcomes beyond 1 MB, which lie outside Redis where a bucket is configured. */
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { QueuedOutcome, QueuedRequest } from "./queue-messages.ts";

/** Larger values go to the bucket. */
export const LARGE_VALUE_BYTES = 2 ** 20;
/** Pause after a failed upload: each attempt may take seconds, and delays every other outcome. */
const PAUSE_MS = 10_000;

/** A store of named values that all replicas share. */
export interface LargeValues {
  /**
   * Resolves when every replica can read the value.
   * @param name letters, digits and `. : @ / _ -`; replaces a value with the same name
   * @throws SconceError `queue_unavailable`
   */
  put(name: string, value: Uint8Array<ArrayBuffer> | string): Promise<void>;
  /** @returns undefined for a missing or expired value; @throws SconceError `queue_unavailable` */
  get(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Deletes a value. The store must also expire values by itself. Never throws. */
  delete(name: string): void;
}

export interface LargePartsOptions {
  /** Name of the queue. */
  readonly queue: string;
  /** Id of this replica. */
  readonly node: string;
  readonly values: LargeValues | undefined;
}

/** Large values of one queue, named by prediction. Without a store all values stay in Redis. */
export class LargeParts {
  readonly #queue: string;
  readonly #node: string;
  readonly #values: LargeValues | undefined;
  #pausedUntilMs = 0;

  constructor({ queue, node, values }: LargePartsOptions) {
    this.#queue = queue;
    this.#node = node;
    this.#values = values;
  }

  /** @returns whether the body was stored here; @throws SconceError `queue_unavailable` */
  async putBody({ id, bytes, body }: QueuedRequest): Promise<boolean> {
    if (this.#values === undefined || bytes <= LARGE_VALUE_BYTES) return false;
    await this.#values.put(this.#name(id, "body"), body);
    return true;
  }

  async body(id: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#values?.get(this.#name(id, "body"));
  }

  deleteBody(id: string): void {
    this.#values?.delete(this.#name(id, "body"));
  }

  /**
   * Stores the members of an outcome. Two replicas may end one prediction, so the name contains the replica.
   * @returns this replica; undefined where the members were not stored here
   */
  async putMembers({ record, bytes }: QueuedOutcome): Promise<string | undefined> {
    if (this.#values === undefined || bytes <= LARGE_VALUE_BYTES || performance.now() < this.#pausedUntilMs)
      return undefined;
    try {
      await this.#values.put(this.#name(record.id, `members/${this.#node}`), String(record.outcome.members));
      return this.#node;
    } catch (error) {
      // Redis takes the outcome: an unavailable bucket must not lose finished work.
      this.#pausedUntilMs = performance.now() + PAUSE_MS;
      logLimit.write("large", (...more) => log.warn(`Outcomes stay in the queue: ${messageOf(error)}`, ...more));
      return undefined;
    }
  }

  /** @param node the replica that stored the members */
  async members(id: string, node: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#values?.get(this.#name(id, `members/${node}`));
  }

  #name(id: string, part: "body" | `members/${string}`): string {
    return `${this.#queue}/${id}/${part}`;
  }
}
