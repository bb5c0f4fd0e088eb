/** The queues of one repository: each prediction's id names the queue that it is in, so that fronts of every build find it there. */
import { createHash } from "node:crypto";
import { newId } from "../predictions/ids.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import type { Queue } from "./queue.ts";
import { LuaScript, type RedisLink } from "./redis-link.ts";
import { listOf, textOf } from "./replies.ts";
import { KEY_PREFIX } from "./script-prelude.ts";

export interface QueueDirectoryOptions {
  readonly link: RedisLink;
  /** Of the model: predictions of other repositories are not found. */
  readonly repository: string;
  /** Of the queue of this process. */
  readonly name: string;
  /** How long predictions can be read that a front accepted before it left. */
  readonly lifetimeS: number;
  readonly open: (name: string) => Queue;
}

/** What no front of one machine has as an owner, and no id that a client chose begins with: nothing is handed to siblings. */
const OWNER = "_";
/** 36 bits of its name's digest, which tell the few queues of a repository apart. */
const TAG_LENGTH = 6;
const ID_LENGTH = newId(OWNER).length + TAG_LENGTH;
/** Ids that nobody gave out make Redis work no more often. */
const REFRESH_MS = 100;

/** name, seconds: notes this queue among those of the repository, a sorted set by when each is forgotten. @returns names of all */
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

  /** That of this process first. */
  get all(): readonly Queue[] {
    return [this.own, ...[...this.#queues.values()].filter((queue) => queue !== this.own)];
  }

  /** A prediction of whichever queue; one whose client chose the id may be in any. @throws SconceError `queue_unavailable` */
  async read(id: string): Promise<PredictionRecord | undefined> {
    for (const queue of this.all) {
      const record = await queue.read(id, { isAwaited: false });
      if (record !== undefined) return record;
    }
    return undefined;
  }

  /** For a prediction of this process's queue. */
  newId(): string {
    return newId(OWNER) + this.#ownTag;
  }

  /** The queue that a prediction is in; undefined for what is no id of this repository. Ids that clients chose are known in one queue. @throws SconceError `queue_unavailable` */
  async of(id: string): Promise<Queue | undefined> {
    if (!id.startsWith(OWNER) || id.length !== ID_LENGTH) return this.own;
    const tag = id.slice(-TAG_LENGTH);
    const known = this.#queues.get(tag);
    if (known !== undefined) return known;
    this.#refreshing ??= this.#refreshLater();
    await this.#refreshing;
    return this.#queues.get(tag);
  }

  /** Says that this queue is in use, and looks which others are. */
  async refresh(): Promise<void> {
    const { link, repository, name, lifetimeS, open } = this.#options;
    this.#refreshedMs = performance.now();
    const names = listOf(await link.run(noteScript, `${KEY_PREFIX}queues:${repository}`, [name, Math.ceil(lifetimeS)]));
    const tagged = names.map(textOf).map((each) => [tagOf(each), each] as const);
    this.#queues = new Map(tagged.map(([tag, each]) => [tag, this.#queues.get(tag) ?? open(each)]));
  }

  async #refreshLater(): Promise<void> {
    // Never at once: until this returns nobody can join it.
    await Bun.sleep(Math.max(0, this.#refreshedMs + REFRESH_MS - performance.now()));
    this.#refreshing = undefined;
    await this.refresh();
  }
}

function tagOf(name: string): string {
  return createHash("sha256").update(name).digest("base64url").slice(0, TAG_LENGTH);
}
