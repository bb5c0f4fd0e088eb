/** The Redis queue that servers share. Most methods run one command or script. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { newId } from "../ids.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import { originText, type PredictionRequest } from "../request.ts";
import type { Accepted, Claimed, Full, QueueFacts } from "../store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { CallBatch } from "./call-batch.ts";
import { Keys } from "./keys.ts";
import { Mail, type QueuedOutcome } from "./mail.ts";
import { QueueEvents } from "./queue-events.ts";
import {
  bodyOf,
  type ClaimedEntry,
  claimedOf,
  entriesOf,
  entryOf,
  listOf,
  numberOf,
  RECORD_FIELDS,
  recordOf,
  type StreamEntry,
  textOf,
} from "./record-fields.ts";
import { type Argument, LARGE_VALUE_BYTES, type LuaScript, type RedisLink } from "./redis-link.ts";
import * as scripts from "./scripts.ts";

export interface QueueOptions {
  readonly link: RedisLink;
  readonly largeLink: RedisLink;
  /** Repository of the model. A queue finds all predictions of its repository. */
  readonly repository: string;
  /** Name of the queue. Replicas with the same name share predictions. */
  readonly name: string;
  /** Id of this replica. */
  readonly node: string;
  readonly leaseMs: number;
  /** Milliseconds for which ended predictions stay readable. */
  readonly retentionMs: number;
  readonly limits: { readonly maxQueuedItems: number; readonly maxQueuedBytes: number };
  /** Whether this replica sends the webhooks of the predictions that it ends. */
  readonly deliversWebhooks?: boolean;
}

export interface QueuedRequest extends Omit<PredictionRequest, "createdAtMs"> {
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly bytes: number;
}

export interface Progress {
  readonly id: string;
  readonly startedAtMs: number | undefined;
  readonly itemsDone: number;
  /** Bytes of the logs that Redis has acknowledged. `logs` is the text after these bytes. */
  readonly logBytes: number;
  readonly logs: string;
}

export interface RedisFacts extends QueueFacts {
  /** Number of predictions that replicas have ended since the queue was created. */
  readonly ended: number;
  /** Whether Redis refuses new predictions because its memory is full. */
  readonly isFull: boolean;
}

export interface ClaimedPage {
  readonly requests: readonly Claimed[];
  /** Number of predictions that failed instead of being claimed, because too many replicas ended while they ran them. */
  readonly givenUp: number;
}

interface Named {
  readonly id: string;
}

type EndMode = "cancel" | "force" | "late" | "dropped";

/** Maximum predictions in one call of a script, which stops all other commands of Redis meanwhile. */
export const MAX_COUNT = 256;
/** Limits of the retention time in milliseconds. Waiting clients read an outcome after its notification. */
const RETENTION_MS = { least: 10_000, most: 1e12 };
/** First character of the ids of predictions in queues. Ids of a server without `--queue` begin with other characters. */
const OWNER = "_";

export class Queue {
  readonly link: RedisLink;
  readonly node: string;
  readonly leaseMs: number;
  readonly keys: Keys;
  readonly mail: Mail;
  readonly events: QueueEvents;
  readonly #options: QueueOptions;
  readonly #retentionMs: number;
  readonly #creates: CallBatch<QueuedRequest, Accepted | Full>;
  readonly #reads: CallBatch<Named & { readonly isAwaited: boolean }, unknown>;
  /** Records above LARGE_VALUE_BYTES that are being read, by id. Concurrent readers of an id share one transfer. */
  readonly #fetching = new Map<string, Promise<PredictionRecord | undefined>>();
  /** Redis' clock minus `performance.now()`, in milliseconds; undefined before the first answer. */
  #redisClockMs: number | undefined;

  constructor(options: QueueOptions) {
    const { link, repository, name, node, leaseMs, retentionMs } = options;
    this.#options = options;
    this.link = link;
    this.node = node;
    this.leaseMs = leaseMs;
    this.keys = new Keys(repository, name);
    this.#retentionMs = Math.min(RETENTION_MS.most, Math.max(RETENTION_MS.least, retentionMs));
    this.mail = new Mail({ link, keys: this.keys, node, keptMs: this.#retentionMs });
    const linkFor = (bytes: number) => this.#linkFor(bytes);
    this.events = new QueueEvents({ node, keys: this.keys, mail: this.mail, linkFor });
    this.#creates = new CallBatch({
      bytesOf: ({ bytes }) => bytes,
      call: (requests) => this.#createAll(requests, link),
    });
    this.#reads = new CallBatch({
      call: async (reads) => {
        const nodes = reads.map(({ isAwaited }) => (isAwaited ? node : ""));
        return listOf(await link.run(scripts.readScript, this.#keysOf(reads), [LARGE_VALUE_BYTES, ...nodes]));
      },
    });
  }

  /** A new id for a prediction. */
  newId(): string {
    return newId(OWNER);
  }

  /** Adds a prediction to the queue. Every method may throw SconceError `queue_unavailable`. */
  async create(request: QueuedRequest): Promise<Accepted | Full> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    // A large request has a separate connection, so that small requests do not wait for it.
    const [created] = await this.#createAll([request], this.#options.largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /**
   * Reads a prediction of any queue of the repository; undefined for an unknown id.
   * @param isAwaited whether this replica is notified when the prediction ends
   */
  async read(id: string, { isAwaited }: { isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    const reply = await this.#reads.ask({ id, isAwaited });
    return typeof reply === "number" ? this.#fetch(id, reply) : recordOf(reply);
  }

  /**
   * Cancels a prediction. The replica that runs the prediction ends it with its outputs so far, and this replica is notified.
   * @param isForced whether to end it at once instead
   * @returns the record, which may be unfinished; undefined for an unknown id
   */
  async cancel(kind: Kind, id: string, isForced: boolean): Promise<PredictionRecord | undefined> {
    const record = await this.read(id, { isAwaited: true });
    if (record?.kind !== kind) return undefined;
    if (record.outcome !== undefined) return record;
    await this.#end([id], isForced ? "force" : "cancel");
    return this.read(id, { isAwaited: true });
  }

  /** Cancels a prediction whose id no client has. */
  async abandon(id: string): Promise<void> {
    await this.#end([id], "cancel");
  }

  /** Claims new predictions. Waits up to `blockMs` milliseconds if there are none. */
  async claim(link: RedisLink, count: number, blockMs: number): Promise<ClaimedPage> {
    const options = ["GROUP", "workers", this.node, "COUNT", count, "BLOCK", blockMs, "STREAMS", this.keys.work(), ">"];
    const entries = entriesOf(await link.call("xreadgroup", ...options));
    return { givenUp: 0, requests: entries.length === 0 ? [] : await this.#requestsOf(entries) };
  }

  /**
   * Claims predictions whose leases have ended, page by page.
   * @param after "-" for the first page, then `next` of the result, which is "" after the last page
   */
  async reclaim(after: string, count: number): Promise<ClaimedPage & { readonly next: string }> {
    const work = this.keys.work();
    const pending = await this.link.call("xpending", work, "workers", "IDLE", this.leaseMs, after, "+", count);
    const idle = listOf(pending).map((each) => textOf(listOf(each)[0]));
    const next = idle.length === count ? `(${idle.at(-1)}` : "";
    const found = await Promise.all(idle.map((entry) => this.link.call("xrange", work, entry, entry)));
    const entries = found.flatMap((each) => listOf(each).map(entryOf));
    if (entries.length === 0) return { givenUp: 0, next, requests: [] };
    const args = [this.node, this.leaseMs, ...entries.map(({ id }) => id)];
    const reply = await this.#runEnding(scripts.reclaimScript, entries.map(claimedOf), args);
    const [claimed, givenUp, ended] = listOf(reply);
    this.mail.announce(ended);
    const own = new Set(listOf(claimed).map(textOf));
    const requests = await this.#requestsOf(entries.filter(({ id }) => own.has(id)));
    return { givenUp: numberOf(givenUp), next, requests };
  }

  async makeGroup(): Promise<void> {
    try {
      await this.link.call("xgroup", "CREATE", this.keys.work(), "workers", "0", "MKSTREAM");
    } catch (error) {
      // BUSYGROUP means that another replica has created the group.
      const cause = error instanceof SconceError ? error.cause : undefined;
      if (!(cause instanceof Error && cause.message.includes("BUSYGROUP"))) throw error;
    }
  }

  async finish(outcomes: readonly QueuedOutcome[]): Promise<void> {
    const args: Argument[] = [];
    const records = outcomes.map(({ record }) => record);
    for (const { outcome, itemsDone, logs, startedAtMs, finishedAtMs, model } of records) {
      const startedAgoMs = startedAtMs === undefined ? "" : Math.max(0, finishedAtMs - startedAtMs);
      args.push(outcome.status, String(outcome.members), startedAgoMs, itemsDone, logs, model?.reference ?? "");
    }
    const link = this.#linkFor(Math.max(...outcomes.map(({ bytes }) => bytes)));
    this.mail.announce(await this.#runEnding(scripts.finishScript, records, args, { link }), outcomes);
  }

  async reportProgress(progress: readonly Progress[]): Promise<void> {
    const nowMs = Date.now();
    for (const page of pagesOf(progress)) {
      const args = page.flatMap(({ startedAtMs, itemsDone, logBytes, logs }) => [
        startedAtMs === undefined ? "" : Math.max(0, nowMs - startedAtMs),
        itemsDone,
        logBytes,
        logs,
      ]);
      await this.link.run(scripts.progressScript, [this.keys.work(), ...this.#keysOf(page)], [this.node, ...args]);
    }
  }

  /** Renews the leases of predictions. @returns ids that have ended or another replica has claimed, and ids that clients have canceled */
  async renew(ids: readonly string[]): Promise<{ lost: string[]; canceled: string[] }> {
    const keys = [this.keys.work(), ...ids.map((id) => this.keys.prediction(id))];
    const states = listOf(await this.link.run(scripts.renewScript, keys, [this.node]));
    return { lost: ids.filter((_, i) => states[i] === 1), canceled: ids.filter((_, i) => states[i] === 2) };
  }

  /** Returns claimed predictions to the queue. The claim does not count as an attempt. */
  async giveBack(ids: readonly string[]): Promise<void> {
    for (const page of pagesOf(ids.map((id) => ({ id }))))
      this.mail.announce(await this.#runEnding(scripts.giveBackScript, page, [this.node]));
  }

  /** Removes this replica from the workers. */
  async leave(): Promise<void> {
    await this.link.call("zrem", this.keys.workers(), this.node);
  }

  /**
   * Ends predictions of all queues of the repository whose time limit has passed.
   * @returns the figures of this queue
   * @param isWorker whether this replica runs predictions
   */
  async tend(isWorker: boolean): Promise<RedisFacts> {
    const { keys, node, mail, leaseMs } = this;
    const names = [keys.work(), keys.totals(), keys.workers(), keys.deadlines, keys.mail(node), keys.unused];
    const reply = await this.link.run(scripts.tendScript, names, [node, isWorker ? 1 : 0, leaseMs, mail.lastId]);
    const [nowMs = 0, items = 0, ended = 0, waiting = 0, taken = 0, ageMs = 0, workers = 0, isFull = 0] = listOf(reply)
      .slice(0, 8)
      .map(numberOf);
    this.#redisClockMs = nowMs - performance.now();
    await this.#end(listOf(reply).slice(8).map(textOf), "late");
    return { items, ended, waiting, taken, ageMs, workers, isFull: isFull === 1 };
  }

  /** The time in milliseconds by Redis' clock. */
  async redisNowMs(): Promise<number> {
    if (this.#redisClockMs === undefined) {
      const [seconds, microseconds] = listOf(await this.link.call("time")).map(numberOf);
      this.#redisClockMs = 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
    }
    return this.#redisClockMs + performance.now();
  }

  async #createAll(requests: readonly QueuedRequest[], link: RedisLink): Promise<(Accepted | Full)[]> {
    const { limits, name } = this.#options;
    const args: Argument[] = [limits.maxQueuedItems, limits.maxQueuedBytes, name];
    for (const { id, kind, count, bytes, timeoutMs, digest = "", body, origin, ...more } of requests) {
      args.push(id, kind, count, bytes, Math.ceil(timeoutMs), more.isWaitedFor ? this.node : "", digest);
      args.push(
        more.isWatched ? 1 : "",
        originText(origin),
        more.webhook === undefined ? "" : webhookText(more.webhook),
      );
      args.push(typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length));
    }
    const reply = listOf(await link.run(scripts.acceptScript, this.#keysOfEnding(name, requests), args)).map(numberOf);
    const [items = 0, createdAtMs = 0, ...created] = reply;
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /** Ends predictions of any queue of the repository, unless the script finds that they must go on. */
  async #end(ids: readonly string[], mode: EndMode): Promise<void> {
    const names = await Promise.all(ids.map((id) => this.link.call("hget", this.keys.prediction(id), "queue")));
    const known = ids.map((id, i) => ({ id, queue: textOf(names[i]) }));
    for (const [queue, found] of Map.groupBy(known, (each) => each.queue)) {
      if (queue === "") {
        // The predictions have ended, or their keys were deleted.
        await this.link.call("zrem", this.keys.deadlines, ...found.map(({ id }) => id));
        continue;
      }
      const reply = await this.#runEnding(scripts.endScript, found, [mode], { queue });
      const worker = textOf(reply);
      if (worker === "") this.mail.announce(reply);
      else for (const { id } of found) this.mail.notify(worker, "canceled", id);
    }
  }

  #fetch(id: string, bytes: number): Promise<PredictionRecord | undefined> {
    const known = this.#fetching.get(id);
    if (known !== undefined) return known;
    const fetching = this.#linkFor(bytes)
      .fetch(bytes, "hmget", this.keys.prediction(id), ...RECORD_FIELDS)
      .then(recordOf)
      .finally(() => this.#fetching.delete(id));
    this.#fetching.set(id, fetching);
    return fetching;
  }

  async #requestsOf(entries: readonly StreamEntry[]): Promise<Claimed[]> {
    const nowMs = await this.redisNowMs();
    const [late, claimed] = [[] as string[], [] as Claimed[]];
    for (const entry of entries.map(claimedOf)) {
      const { body: _body, deadlineMs: redisMs, ...facts } = entry;
      const deadlineMs = performance.now() + redisMs - nowMs;
      if (redisMs <= nowMs) late.push(facts.id);
      else claimed.push({ ...facts, deadlineMs, deaths: 0, load: () => this.#load(entry) });
    }
    // If this call fails, `tend` ends the predictions later.
    if (late.length > 0) void this.#end(late, "dropped").catch(() => {});
    return claimed;
  }

  async #load({
    deadlineMs: _deadline,
    bytes,
    body: found,
    ...facts
  }: ClaimedEntry): Promise<PredictionRequest | undefined> {
    let body = bodyOf(found);
    if (body.length === 0) {
      body = bodyOf(await this.#linkFor(bytes).fetch(bytes, "hget", this.keys.prediction(facts.id), "body"));
    }
    if (body.length > 0) return { ...facts, body };
    log.error(`Redis lost the request of prediction ${facts.id}: it fails`);
    return undefined;
  }

  #keysOf(named: readonly Named[]): string[] {
    return named.map(({ id }) => this.keys.prediction(id));
  }

  #keysOfEnding(queue: string, named: readonly Named[]): string[] {
    const { keys } = this;
    return [keys.work(queue), keys.totals(queue), keys.deadlines, keys.due, ...this.#keysOf(named)];
  }

  /** Runs a script that ends predictions. @param options.queue name of their queue, by default this one */
  #runEnding(
    script: LuaScript,
    named: readonly Named[],
    args: readonly Argument[],
    { queue = this.#options.name, link = this.link }: { readonly queue?: string; readonly link?: RedisLink } = {},
  ): Promise<unknown> {
    const webhookLeaseMs = this.#options.deliversWebhooks ? this.leaseMs : 0;
    return link.run(script, this.#keysOfEnding(queue, named), [this.#retentionMs, webhookLeaseMs, ...args]);
  }

  /** The connection for a command. `bytes` is the size of the largest value in the command or its answer. */
  #linkFor(bytes: number): RedisLink {
    return bytes > LARGE_VALUE_BYTES ? this.#options.largeLink : this.link;
  }
}

function pagesOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / MAX_COUNT) }, (_, i) =>
    all.slice(i * MAX_COUNT, (i + 1) * MAX_COUNT),
  );
}
