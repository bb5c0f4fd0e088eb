/**
 * The queues of one model repository. Each version of the model has a queue. An id contains a digest of its queue's name, so that replicas of every
 * version find the prediction.
 */
import { createHash } from "node:crypto";
import { newId } from "../ids.ts";
import type { PredictionRecord } from "../record.ts";
import type { Queue } from "./queue.ts";
import { LuaScript, type RedisLink } from "./redis-link.ts";
import { listOf, textOf } from "./replies.ts";
import { KEY_PREFIX } from "./script-prelude.ts";

export interface QueueDirectoryOptions {
  readonly link: RedisLink;
  /** Repository of the model. Predictions of other repositories cannot be found. */
  readonly repository: string;
  /** Name of this replica's queue. */
  readonly name: string;
  /** Seconds that the directory lists a queue after its last replica has ended, so that clients can read its predictions. */
  readonly lifetimeS: number;
  readonly open: (name: string) => Queue;
}

/**
 * First character of the ids of predictions in queues. Ids of a server without `--queue`, and ids that clients choose, begin with other characters.
 */
const OWNER = "_";
/** Characters in an id that name the queue: 36 bits of a digest. */
const TAG_LENGTH = 6;
const ID_LENGTH = newId(OWNER).length + TAG_LENGTH;
/** Minimum milliseconds between two refreshes of the directory because of unknown ids. */
const REFRESH_MS = 100;

/** Adds a queue to the sorted set of the repository's queues. Arguments: name, seconds until it expires. @returns the names of all queues */
const noteScript = new LuaScript(`
local now = redis.call('TIME')[1]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], 'GT', now + ARGV[2], ARGV[1])
redis.call('EXPIREAT', KEYS[1], redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
`);

export class QueueDirectory {
  readonly own: Queue;
  readonly #options: QueueDirectoryOptions;
  readonly #ownTag: string;
  #queues: ReadonlyMap<string, Queue>;
  #refreshing: Promise<void> | undefined;
  #refreshedMs = Number.NEGATIVE_INFINITY;

  constructor(options: QueueDirectoryOptions) {
    this.#options = options;
    this.own = options.open(options.name);
    this.#ownTag = tagOf(options.name);
    this.#queues = new Map([[this.#ownTag, this.own]]);
  }

  /** All queues of the repository, the queue of this replica first. */
  get all(): readonly Queue[] {
    return [this.own, ...[...this.#queues.values()].filter((queue) => queue !== this.own)];
  }

  /** Looks for a prediction in all queues. @throws SconceError `queue_unavailable` */
  async read(id: string): Promise<PredictionRecord | undefined> {
    for (const queue of this.all) {
      const record = await queue.read(id, { isAwaited: false });
      if (record !== undefined) return record;
    }
    return undefined;
  }

  /** A new id for a prediction in this replica's queue. */
  newId(): string {
    return newId(OWNER) + this.#ownTag;
  }

  /**
   * The queue whose digest is in an id; for an id that a client chose, the queue of this replica.
   * @returns undefined if the repository has no such queue
   * @throws SconceError `queue_unavailable`
   */
  async queueOf(id: string): Promise<Queue | undefined> {
    // Removes the suffix that an API key adds to ids.
    const [plain = ""] = id.split(".");
    if (!plain.startsWith(OWNER) || plain.length !== ID_LENGTH) return this.own;
    const tag = plain.slice(-TAG_LENGTH);
    const known = this.#queues.get(tag);
    if (known !== undefined) return known;
    this.#refreshing ??= this.#refreshLater();
    await this.#refreshing;
    return this.#queues.get(tag);
  }

  /** Renews the entry of this replica's queue, and reads the names of all queues. */
  async refresh(): Promise<void> {
    const { link, repository, name, lifetimeS, open } = this.#options;
    this.#refreshedMs = performance.now();
    const names = listOf(await link.run(noteScript, `${KEY_PREFIX}queues:${repository}`, [name, Math.ceil(lifetimeS)]));
    const tagged = names.map(textOf).map((each) => [tagOf(each), each] as const);
    this.#queues = new Map(tagged.map(([tag, each]) => [tag, this.#queues.get(tag) ?? open(each)]));
  }

  async #refreshLater(): Promise<void> {
    // Waits for at least one turn of the event loop, in which other callers share this refresh.
    await Bun.sleep(Math.max(0, this.#refreshedMs + REFRESH_MS - performance.now()));
    this.#refreshing = undefined;
    await this.refresh();
  }
}

function tagOf(name: string): string {
  return createHash("sha256").update(name).digest("base64url").slice(0, TAG_LENGTH);
}
