/** Bodies and outcomes of more than 1 MB, which are stored in the bucket of `--bucket` instead of Redis. */
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { BucketValues } from "./bucket-values.ts";
import type { QueuedOutcome, QueuedRequest } from "./queue-messages.ts";

/** Larger values are stored in the bucket, if there is one. */
export const LARGE_VALUE_BYTES = 2 ** 20;
/** Milliseconds without uploads after a failed upload, because each attempt may delay all other outcomes by seconds. */
const PAUSE_MS = 10_000;

/** A store of named values that all replicas share. */
export type LargeValues = Pick<BucketValues, "put" | "get" | "delete">;

export interface LargePartsOptions {
  /** Name of the queue. */
  readonly queue: string;
  /** Id of this replica. */
  readonly node: string;
  readonly values: LargeValues | undefined;
}

/** Large values of one queue. Without a bucket, all values stay in Redis. */
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

  /** Stores a large body in the bucket. @returns whether the body is in the bucket @throws SconceError `queue_unavailable` */
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
   * Stores the JSON members of a large outcome in the bucket. The key has the id of this replica, because two replicas may end the same prediction.
   * @returns the id of this replica; undefined if the members must be stored in Redis
   */
  async putMembers({ record, bytes }: QueuedOutcome): Promise<string | undefined> {
    if (this.#values === undefined || bytes <= LARGE_VALUE_BYTES || performance.now() < this.#pausedUntilMs)
      return undefined;
    try {
      await this.#values.put(this.#name(record.id, `members/${this.#node}`), String(record.outcome.members));
      return this.#node;
    } catch (error) {
      // For this time outcomes go to Redis, so that an unavailable bucket loses no finished work.
      this.#pausedUntilMs = performance.now() + PAUSE_MS;
      logLimit.write("large", (...more) => log.warn(`Outcomes stay in the queue: ${messageOf(error)}`, ...more));
      return undefined;
    }
  }

  /** Reads the JSON members of an outcome. @param node id of the replica that stored them @returns undefined if the bucket does not have them */
  async members(id: string, node: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#values?.get(this.#name(id, `members/${node}`));
  }

  #name(id: string, part: "body" | `members/${string}`): string {
    return `${this.#queue}/${id}/${part}`;
  }
}
