/** Bodies and outcomes of a queue's predictions that are too large for Redis, each under its prediction's id; without a place for them all stays in Redis. */
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import { LARGE_VALUE_BYTES, type LargeValues } from "./large-values.ts";
import type { End, QueuedRequest } from "./queue-messages.ts";

/** After an outcome that could not be put there: each try may take seconds, in which no other end is told. */
const PAUSE_MS = 10_000;

export interface LargePartsOptions {
  /** Its name. */
  readonly queue: string;
  /** Of this process, among all replicas. */
  readonly node: string;
  readonly values: LargeValues | undefined;
}

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

  /** @returns whether the body is there; @throws SconceError `queue_unavailable` */
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
   * Others may end the same prediction, and the first outcome stands: each has a place of its own.
   * @returns whose members are there; undefined where they are not
   */
  async putMembers({ record, bytes }: End): Promise<string | undefined> {
    if (this.#values === undefined || bytes <= LARGE_VALUE_BYTES || performance.now() < this.#pausedUntilMs)
      return undefined;
    try {
      await this.#values.put(this.#name(record.id, `members/${this.#node}`), String(record.outcome.members));
      return this.#node;
    } catch (error) {
      // Work that is done is not lost, nor held up, for want of the better place.
      this.#pausedUntilMs = performance.now() + PAUSE_MS;
      logLimit.write("large", (...more) => log.warn(`Outcomes stay in the queue: ${messageOf(error)}`, ...more));
      return undefined;
    }
  }

  /** @param node whose */
  async members(id: string, node: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#values?.get(this.#name(id, `members/${node}`));
  }

  #name(id: string, part: "body" | `members/${string}`): string {
    return `${this.#queue}/${id}/${part}`;
  }
}
