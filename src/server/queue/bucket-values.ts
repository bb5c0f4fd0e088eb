/** Large values and files of predictions in a bucket. Redis knows until when each is kept: what nobody deleted by then is deleted here. */
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { Bucket } from "./bucket.ts";
import type { LargeValues } from "./large-values.ts";

/** What the queue's connection does. */
interface Commands {
  call(name: string, ...args: readonly (string | number)[]): Promise<unknown>;
}

export interface BucketValuesOptions {
  readonly bucket: Bucket;
  readonly redis: Commands;
  /** Of the sorted set: values by the time, in seconds of Redis, until which they are kept. */
  readonly key: string;
  /** Longest that a value is needed. */
  readonly lifetimeS: number;
}

const JANITOR_MS = 30_000;
const MAX_DUE = 100;
const noteScript = "return redis.call('ZADD', KEYS[1], redis.call('TIME')[1] + ARGV[2], ARGV[1])";
const dueScript = `return redis.call('ZRANGE', KEYS[1], '-inf', redis.call('TIME')[1], 'BYSCORE', 'LIMIT', 0, ${MAX_DUE})`;

export class BucketValues implements LargeValues, Disposable {
  readonly #options: BucketValuesOptions;
  readonly #janitor: ReturnType<typeof setInterval>;

  constructor(options: BucketValuesOptions) {
    this.#options = options;
    // What would be found out with the first large value is said at once.
    this.get("start").catch((error: unknown) => log.warn(messageOf(error)));
    this.#janitor = setInterval(() => void this.deleteDue().catch(logFault), JANITOR_MS);
    this.#janitor.unref();
  }

  async put(name: string, value: Uint8Array<ArrayBuffer> | string, type?: string): Promise<void> {
    const { bucket, redis, key, lifetimeS } = this.#options;
    // Noted before: what a killed process leaves in the bucket is known.
    await redis.call("eval", noteScript, 1, key, name, Math.ceil(lifetimeS));
    await bucket.put(name, value, type);
  }

  get(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#options.bucket.get(name);
  }

  delete(name: string): void {
    this.#delete(name).catch(logFault);
  }

  /** Keeps a file, and links to it for so many seconds. @throws SconceError `queue_unavailable` */
  async link(name: string, { bytes, mediaType, parameters }: LinkedFile, seconds: number): Promise<string> {
    await this.put(name, bytes, `${mediaType}${parameters}`);
    return this.#options.bucket.link(name, seconds);
  }

  /** Deletes what is kept no longer; each replica does so from time to time. */
  async deleteDue(): Promise<void> {
    const { redis, key } = this.#options;
    for (let found = MAX_DUE; found === MAX_DUE; ) {
      const due = await redis.call("eval", dueScript, 1, key);
      const names = Array.isArray(due) ? due.map(String) : [];
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
  /** Of the media type, as `;charset=utf-8`. */
  readonly parameters: string;
}

function logFault(error: unknown): void {
  logLimit.write("bucket", (...more) => log.warn(`Values are deleted later: ${messageOf(error)}`, ...more));
}
