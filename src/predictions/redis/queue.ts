/** The Redis queue that replicas share. Most methods run one command or script. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import { originText, type UnfinishedRequest } from "../store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { CallBatch } from "./call-batch.ts";
import { QueueEvents } from "./queue-events.ts";
import type {
  Claimed,
  ClaimedRequest,
  Created,
  Progress,
  QueuedOutcome,
  QueuedRequest,
  QueueFacts,
  WebhookExchange,
  WebhooksClaimed,
} from "./queue-messages.ts";
import { type Argument, LARGE_VALUE_BYTES, type LuaScript, type RedisLink } from "./redis-link.ts";
import {
  bytesOf,
  type ClaimedEntry,
  claimedOf,
  entriesOf,
  entryOf,
  listOf,
  numberOf,
  recordOf,
  requestOf,
  type StreamEntry,
  textOf,
} from "./replies.ts";
import { KEY_PREFIX, NO_LIMIT } from "./script-prelude.ts";
import * as scripts from "./scripts.ts";

export interface QueueOptions {
  readonly link: RedisLink;
  readonly largeLink: RedisLink;
  /** Name of the queue. Replicas with the same name share predictions. */
  readonly name: string;
  /** Id of this replica. */
  readonly node: string;
  readonly leaseMs: number;
  /** Limits of age, count and bytes for ended predictions. */
  readonly retention: { readonly ms: number; readonly count?: number | undefined; readonly bytes: number };
  /** Longest time limit of a prediction from this replica, in milliseconds. */
  readonly timeoutMs: number;
  readonly limits: { readonly maxQueuedItems: number; readonly maxQueuedBytes: number };
  /** Whether this replica sends the webhooks of the predictions that it ends. */
  readonly deliversWebhooks?: boolean;
}

interface RunOptions {
  /** Default: the connection for small commands. */
  readonly link?: RedisLink;
  /** Expected size of the answer, which extends the time limit. */
  readonly answerBytes?: number;
}

/** Maximum predictions in one call of a script, which stops all other commands of Redis meanwhile. */
export const MAX_COUNT = 256;
/** Minimum retention in milliseconds, because waiting clients read an outcome after its notification. */
const MIN_RETENTION_MS = 10_000;
/** Maximum bytes of a body in the stream entry of its prediction, which scripts read whole. A larger body has its own Redis key. */
const MAX_ENTRY_BYTES = 65_536;

export class Queue {
  readonly node: string;
  readonly leaseMs: number;
  readonly events = new QueueEvents((script, args, bytes) =>
    this.#run(script, args, { link: this.#linkFor(bytes), answerBytes: bytes }),
  );
  readonly #link: RedisLink;
  readonly #largeLink: RedisLink;
  readonly #base: string;
  readonly #work: string;
  /** First two arguments of every script. */
  readonly #scriptArgs: readonly Argument[];
  readonly #timeoutMs: number;
  readonly #limits: QueueOptions["limits"];
  readonly #creates: CallBatch<QueuedRequest, Created>;
  readonly #reads: CallBatch<{ readonly id: string; readonly isAwaited: boolean }, unknown>;
  /** Large records that are being read, by id. Concurrent readers of an id share one transfer. */
  readonly #fetching = new Map<string, Promise<PredictionRecord | undefined>>();
  /** Redis' clock minus `performance.now()`, in milliseconds; undefined before the first answer. */
  #redisClockMs: number | undefined;

  constructor(options: QueueOptions) {
    const { link, largeLink, name, node, leaseMs, retention, timeoutMs, limits } = options;
    this.#link = link;
    this.#largeLink = largeLink;
    this.node = node;
    this.leaseMs = leaseMs;
    this.#base = `${KEY_PREFIX}{${name}}:`;
    this.#work = `${this.#base}work`;
    const { ms, count = NO_LIMIT, bytes } = retention;
    const ownWebhooksMs = options.deliversWebhooks ? leaseMs : 0;
    this.#scriptArgs = [`${Math.max(MIN_RETENTION_MS, ms)} ${count} ${bytes} ${ownWebhooksMs}`, node];
    this.#timeoutMs = timeoutMs;
    this.#limits = limits;
    this.#creates = new CallBatch({
      bytesOf: ({ bytes }) => bytes,
      call: (requests) => this.#createAll(requests, this.#link),
    });
    this.#reads = new CallBatch({
      call: async (reads) => {
        // If one reader waits for the end of its prediction, Redis notifies this replica of the ends of all predictions in the call, which does no
        // harm.
        const purpose = reads.some(({ isAwaited }) => isAwaited) ? "awaited" : "";
        return listOf(await this.#run(scripts.readScript, [purpose, ...reads.map(({ id }) => id)]));
      },
    });
  }

  /** Adds a prediction to the queue. Every method may throw SconceError `queue_unavailable`. */
  async create(request: QueuedRequest): Promise<Created> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    // A large request has a separate connection, so that small requests do not wait for it.
    const [created] = await this.#createAll([request], this.#largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /**
   * Reads a prediction; undefined for an unknown id.
   * @param isAwaited whether Redis notifies this replica when the prediction ends
   */
  async read(id: string, { isAwaited }: { isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    return this.#whole(id, await this.#reads.ask({ id, isAwaited }));
  }

  /**
   * Cancels a prediction.
   * @param isForced whether Redis ends it at once, and not the replica that runs it
   * @returns the record, which may be unfinished; undefined for an unknown id
   */
  async cancel(kind: Kind, id: string, isForced: boolean): Promise<PredictionRecord | undefined> {
    const record = await this.#whole(id, await this.#run(scripts.cancelScript, [kind, id, isForced ? 1 : 0]));
    return record?.kind === kind ? record : undefined;
  }

  /** Cancels predictions whose ids no client has, because their clients have disconnected or got an error. */
  async cancelAll(abandoned: readonly { readonly kind: Kind; readonly id: string }[]): Promise<void> {
    const args = abandoned.flatMap(({ kind, id }) => [kind, id]);
    await this.#run(scripts.cancelAllScript, args);
  }

  /** Claims new predictions. Waits up to `blockMs` milliseconds if there are none. */
  async claim(link: RedisLink, count: number, blockMs: number): Promise<Claimed> {
    const options = ["GROUP", "workers", this.node, "COUNT", count, "BLOCK", blockMs, "STREAMS", this.#work, ">"];
    const entries = entriesOf(await link.call("xreadgroup", ...options));
    return { givenUp: 0, requests: entries.length === 0 ? [] : await this.#requestsOf(entries) };
  }

  /**
   * Claims predictions whose leases have ended, page by page.
   * @param after "-" for the first page, then `next` of the result, which is "" after the last page
   */
  async reclaim(after: string, count: number): Promise<Claimed & { readonly next: string }> {
    const reply = await this.#run(scripts.reclaimScript, [this.leaseMs, after, count], {
      answerBytes: count * MAX_ENTRY_BYTES,
    });
    const [givenUp, next, ...entries] = listOf(reply);
    return { givenUp: numberOf(givenUp), next: textOf(next), requests: await this.#requestsOf(entries.map(entryOf)) };
  }

  async makeGroup(): Promise<void> {
    try {
      await this.#link.call("xgroup", "CREATE", this.#work, "workers", "0", "MKSTREAM");
    } catch (error) {
      // BUSYGROUP means that another replica has created the group.
      const cause = error instanceof SconceError ? error.cause : undefined;
      if (!(cause instanceof Error && cause.message.includes("BUSYGROUP"))) throw error;
    }
  }

  async finish(outcomes: readonly QueuedOutcome[]): Promise<void> {
    const args: Argument[] = [];
    for (const { record } of outcomes) {
      const { id, outcome, itemsDone, logs, startedAtMs, finishedAtMs, model } = record;
      const startedAgoMs = startedAtMs === undefined ? "" : Math.max(0, finishedAtMs - startedAtMs);
      args.push(id, outcome.status, String(outcome.members), startedAgoMs, itemsDone, logs, model?.reference ?? "");
    }
    const largest = Math.max(...outcomes.map(({ bytes }) => bytes));
    await this.#run(scripts.finishScript, args, { link: this.#linkFor(largest) });
  }

  async reportProgress(progress: readonly Progress[]): Promise<void> {
    const nowMs = Date.now();
    for (let i = 0; i < progress.length; i += MAX_COUNT) {
      const page = progress.slice(i, i + MAX_COUNT);
      const args = page.flatMap(({ id, startedAtMs, itemsDone, logBytes, logs }) => [
        id,
        startedAtMs === undefined ? "" : Math.max(0, nowMs - startedAtMs),
        itemsDone,
        logBytes,
        logs,
      ]);
      await this.#run(scripts.progressScript, args);
    }
  }

  /** Renews the leases of predictions. @returns ids that have ended or another replica has claimed, and ids that clients have canceled */
  async renew(ids: readonly string[]): Promise<{ lost: string[]; cancelled: string[] }> {
    const [lost, cancelled] = listOf(await this.#run(scripts.renewScript, ids));
    return { lost: listOf(lost).map(textOf), cancelled: listOf(cancelled).map(textOf) };
  }

  /** Returns claimed predictions to the queue. The claim does not count as an attempt. */
  async giveBack(ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += MAX_COUNT)
      await this.#run(scripts.giveBackScript, ids.slice(i, i + MAX_COUNT));
  }

  /** Removes this replica from the workers, and from the consumers of the stream if it has no claim. */
  async leave(): Promise<void> {
    await this.#run(scripts.leaveScript, []);
  }

  /** Reads this replica's notifications after the id `after`. Without any, waits up to `blockMs` milliseconds. */
  async readMail(link: RedisLink, after: string, blockMs: number): Promise<StreamEntry[]> {
    const key = `${this.#base}mail:${this.node}`;
    const options = ["COUNT", 1000, "BLOCK", blockMs, "STREAMS", key, after];
    return entriesOf(await link.call("xread", ...options));
  }

  /**
   * Ends predictions of all replicas whose time limit has passed.
   * @returns the figures of the queue
   * @param lastMail id of the last notification that this replica has read
   * @param isWorker whether this replica runs predictions
   */
  async tend(lastMail: string, isWorker: boolean): Promise<QueueFacts> {
    const args = [lastMail, this.leaseMs, this.#timeoutMs, isWorker ? 1 : 0];
    const facts = listOf(await this.#run(scripts.tendScript, args)).map(numberOf);
    const [nowMs = 0, items = 0, bytes = 0, ended = 0, waiting = 0, taken = 0, ageMs = 0, ...more] = facts;
    const [workers = 0, kept = 0, keptBytes = 0, isFull = 0] = more;
    this.#redisClockMs = nowMs - performance.now();
    return { items, bytes, ended, waiting, taken, ageMs, workers, kept, keptBytes, isFull: isFull === 1 };
  }

  /** Deletes delivered webhooks, renews leases, and claims webhooks that no replica has leased. */
  async webhooks({ leaseMs, maxClaimed, delivered, renewed }: WebhookExchange): Promise<WebhooksClaimed> {
    const named = [...delivered, ...renewed].flatMap(({ id, createdAtMs = 0 }) => [id, createdAtMs]);
    const reply = await this.#run(scripts.webhookScript, [leaseMs, maxClaimed, delivered.length, ...named]);
    const [count, ...rest] = listOf(reply);
    const claimed: WebhooksClaimed["claimed"][number][] = [];
    for (let i = 0; i < rest.length; i += 3) {
      claimed.push({ id: textOf(rest[i]), createdAtMs: numberOf(rest[i + 1]), webhook: textOf(rest[i + 2]) });
    }
    return { count: numberOf(count), claimed };
  }

  async #createAll(requests: readonly QueuedRequest[], link: RedisLink): Promise<Created[]> {
    const { maxQueuedItems, maxQueuedBytes } = this.#limits;
    const args: Argument[] = [maxQueuedItems, maxQueuedBytes, this.#timeoutMs];
    for (const request of requests) this.#addTo(args, request);
    const reply = await this.#run(scripts.createScript, args, { link });
    const [items = 0, createdAtMs = 0, ...created] = listOf(reply).map(numberOf);
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /** @param reply a record; the size of a record that is too large for the answer; or null for an unknown id */
  async #whole(id: string, reply: unknown): Promise<PredictionRecord | undefined> {
    return typeof reply === "number" ? this.#fetch(id, reply) : recordOf(reply);
  }

  #fetch(id: string, bytes: number): Promise<PredictionRecord | undefined> {
    const known = this.#fetching.get(id);
    if (known !== undefined) return known;
    const fetching = this.#run(scripts.recordScript, [id], { link: this.#linkFor(bytes), answerBytes: bytes })
      .then(recordOf)
      .finally(() => this.#fetching.delete(id));
    this.#fetching.set(id, fetching);
    return fetching;
  }

  async #requestsOf(entries: readonly StreamEntry[]): Promise<ClaimedRequest[]> {
    this.#redisClockMs ??= await this.#readClock();
    const nowMs = this.#redisClockMs + performance.now();
    const claimed = entries.map((entry) => claimedOf(entry, nowMs));
    const expired = claimed.filter(({ leftMs }) => leftMs <= 0).map(({ id }) => id);
    // If this call fails, `tend` ends the predictions later.
    if (expired.length > 0) void this.#run(scripts.readScript, ["expired", ...expired]).catch(() => {});
    return claimed
      .filter(({ leftMs }) => leftMs > 0)
      .map((entry) => {
        const { id, kind, count, leftMs, bytes } = entry;
        return { id, kind, count, leftMs, bytes, load: () => this.#load(entry) };
      });
  }

  async #load(entry: ClaimedEntry): Promise<UnfinishedRequest> {
    const { id, kind, count, createdAtMs, leftMs, timeoutMs, isWaitedFor, bytes, isLarge } = entry;
    const beganMs = performance.now();
    const key = `${this.#base}b:${id}`;
    const request = isLarge ? bytesOf(await this.#linkFor(bytes).fetch(bytes, "get", key)) : entry.request;
    const isLost = request.length === 0;
    if (isLost) log.error(`Redis lost the request of prediction ${id}: it fails`);
    const facts = { id, kind, count, createdAtMs, timeoutMs, isWaitedFor, isLost, deaths: 0 };
    return { ...facts, ...requestOf(request), leftMs: leftMs - (performance.now() - beganMs) };
  }

  async #readClock(): Promise<number> {
    const [seconds, microseconds] = listOf(await this.#link.call("time")).map(numberOf);
    return 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
  }

  #addTo(args: Argument[], request: QueuedRequest): void {
    const { id, kind, count, bytes, timeoutMs, isWaitedFor, body, origin, digest = "" } = request;
    const webhook = request.webhook === undefined ? "" : webhookText(request.webhook);
    const line = `${originText(origin)}\t${webhook}\n`;
    const data = typeof body === "string" ? line + body : Buffer.concat([Buffer.from(line), body]);
    const flags = `${bytes > MAX_ENTRY_BYTES ? "1" : ""} ${isWaitedFor ? this.node : ""} ${digest}`;
    args.push(id, count, bytes, Math.ceil(timeoutMs), kind, flags, data, webhook);
  }

  #run(script: LuaScript, args: readonly Argument[], { link = this.#link, answerBytes = 0 }: RunOptions = {}) {
    return link.run(script, this.#work, [...this.#scriptArgs, ...args], answerBytes);
  }

  /** The connection for a command. `bytes` is the size of the largest value in the command or its answer. */
  #linkFor(bytes: number): RedisLink {
    return bytes > LARGE_VALUE_BYTES ? this.#largeLink : this.#link;
  }
}
