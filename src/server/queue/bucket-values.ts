/** Stores large values and files in a bucket. Redis has the expiry time of each, and every replica deletes expired values. */
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { Bucket } from "./bucket.ts";

interface Commands {
  call(name: string, ...args: readonly (string | number)[]): Promise<unknown>;
}

export interface BucketValuesOptions {
  readonly bucket: Bucket;
  readonly redis: Commands;
  /** Redis key of the sorted set with the expiry time of each value, in seconds of Redis' clock. */
  readonly key: string;
  /** Seconds that a value is kept. */
  readonly lifetimeS: number;
}

const JANITOR_MS = 30_000;
const MAX_EXPIRED = 100;
const noteScript = "return redis.call('ZADD', KEYS[1], redis.call('TIME')[1] + ARGV[2], ARGV[1])";
const expiredScript = `return redis.call('ZRANGE', KEYS[1], '-inf', redis.call('TIME')[1], 'BYSCORE', 'LIMIT', 0, ${MAX_EXPIRED})`;

export class BucketValues implements Disposable {
  readonly #options: BucketValuesOptions;
  readonly #janitor: ReturnType<typeof setInterval>;

  constructor(options: BucketValuesOptions) {
    this.#options = options;
    // Reads a value now, so that a wrong configuration is in the log at the start and not with the first large value.
    this.get("start").catch((error: unknown) => log.warn(messageOf(error)));
    this.#janitor = setInterval(() => void this.deleteExpired().catch(logFault), JANITOR_MS);
    this.#janitor.unref();
  }

  /**
   * Stores a value. Resolves when every replica can read it.
   * @param name letters, digits and `. : @ / _ -`; an existing value with this name is replaced
   * @throws SconceError `queue_unavailable`
   */
  async put(name: string, value: Uint8Array<ArrayBuffer> | string, type?: string): Promise<void> {
    const { bucket, redis, key, lifetimeS } = this.#options;
    // Notes the expiry time before the upload. If the process is killed during the upload, the value is still deleted some day.
    await redis.call("eval", noteScript, 1, key, name, Math.ceil(lifetimeS));
    await bucket.put(name, value, type);
  }

  /** Reads a value; undefined if it is missing, for example deleted after its expiry. @throws SconceError `queue_unavailable` */
  get(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#options.bucket.get(name);
  }

  /** Deletes a value. Never throws: a value that is not deleted expires. */
  delete(name: string): void {
    this.#delete(name).catch(logFault);
  }

  /** Uploads a file. @returns a URL that is valid for `seconds`, at most a week @throws SconceError `queue_unavailable` */
  async link(name: string, { bytes, mediaType, parameters }: LinkedFile, seconds: number): Promise<string> {
    await this.put(name, bytes, `${mediaType}${parameters}`);
    return this.#options.bucket.link(name, seconds);
  }

  async deleteExpired(): Promise<void> {
    const { redis, key } = this.#options;
    for (let found = MAX_EXPIRED; found === MAX_EXPIRED; ) {
      const reply = await redis.call("eval", expiredScript, 1, key);
      const names = Array.isArray(reply) ? reply.map(String) : [];
      await Promise.all(names.map((name) => this.#delete(name)));
      found = names.length;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#janitor);
  }

  async #delete(name: string): Promise<void> {
    const { bucket, redis, key } = this.#options;
    await bucket.delete(name);
    await redis.call("zrem", key, name);
  }
}

export interface LinkedFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mediaType: string;
  /** Parameters of the media type, such as `;charset=utf-8`. */
  readonly parameters: string;
}

function logFault(error: unknown): void {
  logLimit.write("bucket", (...more) => log.warn(`Values are deleted later: ${messageOf(error)}`, ...more));
}
