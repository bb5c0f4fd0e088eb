/** The Redis queue that replicas share. Most methods run one command or script. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { newId } from "../ids.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import { originText, type PredictionRequest } from "../request.ts";
import type { Claimed as ClaimedRequest } from "../store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { CallBatch } from "./call-batch.ts";
import { QueueEvents } from "./queue-events.ts";
import type {
  Claimed,
  Created,
  Progress,
  QueuedOutcome,
  QueuedRequest,
  QueueFacts,
  WebhookExchange,
  WebhooksClaimed,
} from "./queue-messages.ts";
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
  valuesOf,
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

interface RunOptions {
  /** Default: the connection for small commands. */
  readonly link?: RedisLink;
  /** Expected size of the answer, which extends the time limit. */
  readonly answerBytes?: number;
}

type EndMode = "cancel" | "force" | "late" | "dropped";

/** Prefix of all keys, with the version of their layout. Replicas with another layout use other keys. */
export const KEY_PREFIX = "sconce:8:";
/** Maximum predictions in one call of a script, which stops all other commands of Redis meanwhile. */
export const MAX_COUNT = 256;
/** Limits of the retention time in milliseconds. Waiting clients read an outcome after its notification. */
const RETENTION_MS = { least: 10_000, most: 1e12 };
/** Largest outcome in a notification, in bytes. Replicas read a larger outcome. */
const MAX_MAIL_BYTES = 65_536;
const MAX_MAILS = 10_000;
/** First character of the ids of predictions in queues. Ids of a server without `--queue` begin with other characters. */
const OWNER = "_";

export class Queue {
  readonly node: string;
  readonly leaseMs: number;
  readonly events: QueueEvents;
  readonly #options: QueueOptions;
  readonly #link: RedisLink;
  readonly #base: string;
  readonly #work: string;
  readonly #totals: string;
  readonly #workers: string;
  readonly #deadlines: string;
  readonly #due: string;
  readonly #retentionMs: number;
  readonly #creates: CallBatch<QueuedRequest, Created>;
  readonly #reads: CallBatch<{ readonly id: string; readonly isAwaited: boolean }, unknown>;
  /** Large records that are being read, by id. Concurrent readers of an id share one transfer. */
  readonly #fetching = new Map<string, Promise<PredictionRecord | undefined>>();
  /** Redis' clock minus `performance.now()`, in milliseconds; undefined before the first answer. */
  #redisClockMs: number | undefined;

  constructor(options: QueueOptions) {
    const { link, repository, name, node, leaseMs, retentionMs } = options;
    this.#options = options;
    this.#link = link;
    this.node = node;
    this.leaseMs = leaseMs;
    this.#base = `${KEY_PREFIX}{${repository}}:`;
    this.#work = `${this.#base}work:${name}`;
    this.#totals = `${this.#base}totals:${name}`;
    this.#workers = `${this.#base}workers:${name}`;
    this.#deadlines = `${this.#base}deadlines`;
    this.#due = `${this.#base}due`;
    this.#retentionMs = Math.min(RETENTION_MS.most, Math.max(RETENTION_MS.least, retentionMs));
    this.#creates = new CallBatch({
      bytesOf: ({ bytes }) => bytes,
      call: (requests) => this.#createAll(requests, link),
    });
    this.#reads = new CallBatch({
      call: async (reads) => {
        const keys = reads.map(({ id }) => this.#key(id));
        const nodes = reads.map(({ isAwaited }) => (isAwaited ? node : ""));
        return listOf(await this.#run(scripts.readScript, keys, [LARGE_VALUE_BYTES, ...nodes]));
      },
    });
    this.events = new QueueEvents({
      node,
      keysOf: (id) => ({ work: this.#work, prediction: this.#key(id), events: `${this.#base}e:${id}` }),
      run: (script, keys, args, bytes) =>
        this.#run(script, keys, args, { link: this.#linkFor(bytes), answerBytes: bytes }),
      changed: (id, nodes) => this.#notify(nodes, "events", id),
      watched: async (id, queue, entry) => {
        const [pending] = listOf(await link.call("xpending", `${this.#base}work:${queue}`, "workers", entry, entry, 1));
        this.#notify(textOf(listOf(pending)[1]), "watched", id);
      },
    });
  }

  /** A new id for a prediction. */
  newId(): string {
    return newId(OWNER);
  }

  /** Adds a prediction to the queue. Every method may throw SconceError `queue_unavailable`. */
  async create(request: QueuedRequest): Promise<Created> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    // A large request has a separate connection, so that small requests do not wait for it.
    const [created] = await this.#createAll([request], this.#options.largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /**
   * Reads a prediction of any queue of the repository; undefined for an unknown id.
   * @param isAwaited whether Redis notifies this replica when the prediction ends
   */
  async read(id: string, { isAwaited }: { isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    const reply = await this.#reads.ask({ id, isAwaited });
    return typeof reply === "number" ? this.#fetch(id, reply) : recordOf(reply);
  }

  /**
   * Cancels a prediction. The replica that runs it ends it with its outputs so far, and this replica is notified.
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

  /** Cancels predictions whose ids no client has, because their clients have disconnected or got an error. */
  async cancelAll(abandoned: readonly { readonly id: string }[]): Promise<void> {
    for (const { id } of abandoned) await this.#end([id], "cancel");
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
    const args = [this.#work, "workers", "IDLE", this.leaseMs, after, "+", count];
    const idle = listOf(await this.#link.call("xpending", ...args)).map((each) => textOf(listOf(each)[0]));
    const next = idle.length === count ? `(${idle.at(-1)}` : "";
    const found = await Promise.all(idle.map((entry) => this.#link.call("xrange", this.#work, entry, entry)));
    const entries = found.flatMap((each) => listOf(each).map(entryOf));
    if (entries.length === 0) return { givenUp: 0, next, requests: [] };
    const ids = entries.map((entry) => claimedOf(entry).id);
    const more = [this.node, this.leaseMs, ...entries.map(({ id }) => id)];
    const [claimed, givenUp, ended] = listOf(await this.#runEnding(scripts.reclaimScript, ids, more));
    this.#announce(ended);
    const own = new Set(listOf(claimed).map(textOf));
    const requests = await this.#requestsOf(entries.filter(({ id }) => own.has(id)));
    return { givenUp: numberOf(givenUp), next, requests };
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
      const { outcome, itemsDone, logs, startedAtMs, finishedAtMs, model } = record;
      const startedAgoMs = startedAtMs === undefined ? "" : Math.max(0, finishedAtMs - startedAtMs);
      args.push(outcome.status, String(outcome.members), startedAgoMs, itemsDone, logs, model?.reference ?? "");
    }
    const link = this.#linkFor(Math.max(...outcomes.map(({ bytes }) => bytes)));
    const ids = outcomes.map(({ record }) => record.id);
    const records = new Map(outcomes.map((each) => [each.record.id, each]));
    this.#announce(await this.#runEnding(scripts.finishScript, ids, args, { link }), records);
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
      await this.#run(scripts.progressScript, [this.#work, ...this.#keys(page)], [this.node, ...args]);
    }
  }

  /** Renews the leases of predictions. @returns ids that have ended or another replica has claimed, and ids that clients have canceled */
  async renew(ids: readonly string[]): Promise<{ lost: string[]; cancelled: string[] }> {
    const keys = [this.#work, ...ids.map((id) => this.#key(id))];
    const states = listOf(await this.#run(scripts.renewScript, keys, [this.node]));
    return { lost: ids.filter((_, i) => states[i] === 1), cancelled: ids.filter((_, i) => states[i] === 2) };
  }

  /** Returns claimed predictions to the queue. The claim does not count as an attempt. */
  async giveBack(ids: readonly string[]): Promise<void> {
    for (const page of pagesOf(ids)) this.#announce(await this.#runEnding(scripts.giveBackScript, page, [this.node]));
  }

  /** Removes this replica from the workers, and from the consumers of the stream if it has no claim. */
  async leave(): Promise<void> {
    await this.#run(scripts.leaveScript, [this.#work, this.#workers], [this.node]);
  }

  /** Reads this replica's notifications after the id `after`. Without any, waits up to `blockMs` milliseconds. */
  async readMail(link: RedisLink, after: string, blockMs: number): Promise<StreamEntry[]> {
    const options = ["COUNT", 1000, "BLOCK", blockMs, "STREAMS", this.#mailOf(this.node), after];
    return entriesOf(await link.call("xread", ...options));
  }

  /**
   * Ends predictions of all queues of the repository whose time limit has passed.
   * @returns the figures of this queue
   * @param lastMail id of the last notification that this replica has read
   * @param isWorker whether this replica runs predictions
   */
  async tend(lastMail: string, isWorker: boolean): Promise<QueueFacts> {
    const names = [this.#work, this.#totals, this.#workers, this.#deadlines];
    const keys = [...names, this.#mailOf(this.node), `${this.#base}unused`];
    const reply = await this.#run(scripts.tendScript, keys, [this.node, isWorker ? 1 : 0, this.leaseMs, lastMail]);
    const [nowMs = 0, items = 0, bytes = 0, ended = 0, waiting = 0, taken = 0, ageMs = 0, workers = 0, isFull = 0] =
      listOf(reply).slice(0, 9).map(numberOf);
    this.#redisClockMs = nowMs - performance.now();
    await this.#end(listOf(reply).slice(9).map(textOf), "late");
    return { items, bytes, ended, waiting, taken, ageMs, workers, isFull: isFull === 1 };
  }

  /** Deletes delivered webhooks, renews leases, and claims webhooks that no replica has leased. */
  async webhooks({ leaseMs, maxClaimed, delivered, renewed }: WebhookExchange): Promise<WebhooksClaimed> {
    const nowMs = Math.ceil(await this.#redisNowMs());
    const found = await this.#link.call("zrangebyscore", this.#due, "-inf", nowMs, "LIMIT", 0, maxClaimed);
    const named = [
      ...delivered.map(({ id, createdAtMs }) => [id, `-${createdAtMs}`] as const),
      ...renewed.map(({ id, createdAtMs }) => [id, `${createdAtMs}`] as const),
      ...listOf(found).map((id) => [textOf(id), ""] as const),
    ];
    const keys = [this.#due, ...named.map(([id]) => this.#key(id))];
    const [count, ...rest] = listOf(await this.#run(scripts.webhookScript, keys, [leaseMs, ...named.flat()]));
    const claimed: WebhooksClaimed["claimed"][number][] = [];
    for (let i = 0; i < rest.length; i += 3) {
      claimed.push({ id: textOf(rest[i]), createdAtMs: numberOf(rest[i + 1]), webhook: textOf(rest[i + 2]) });
    }
    return { count: numberOf(count), claimed };
  }

  async #createAll(requests: readonly QueuedRequest[], link: RedisLink): Promise<Created[]> {
    const { limits, name } = this.#options;
    const keys = [this.#work, this.#totals, this.#deadlines, this.#due, ...this.#keys(requests)];
    const args: Argument[] = [limits.maxQueuedItems, limits.maxQueuedBytes, name];
    for (const request of requests) {
      const { id, kind, count, bytes, timeoutMs, isWaitedFor, digest = "", body, origin, webhook } = request;
      args.push(id, kind, count, bytes, Math.ceil(timeoutMs), isWaitedFor ? this.node : "", digest);
      args.push(
        this.events.takeExpected(id) ? 1 : "",
        originText(origin),
        webhook === undefined ? "" : webhookText(webhook),
      );
      args.push(typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length));
    }
    const [items = 0, createdAtMs = 0, ...created] = listOf(
      await this.#run(scripts.acceptScript, keys, args, { link }),
    ).map(numberOf);
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /** Ends predictions of any queue of the repository, unless the script finds that they must go on. */
  async #end(ids: readonly string[], mode: EndMode): Promise<void> {
    const names = await Promise.all(ids.map((id) => this.#link.call("hget", this.#key(id), "queue")));
    const known = ids.map((id, i) => ({ id, queue: textOf(names[i]) }));
    for (const [queue, found] of Map.groupBy(known, (each) => each.queue)) {
      // The key was deleted, so nobody can read the prediction.
      if (queue === "") await this.#link.call("zrem", this.#deadlines, ...found.map(({ id }) => id));
      else {
        const reply = await this.#runEnding(
          scripts.endScript,
          found.map(({ id }) => id),
          [mode],
          { queue },
        );
        const worker = textOf(reply);
        if (worker !== "") this.#notify(worker, "cancel", found[0]?.id ?? "");
        else this.#announce(reply);
      }
    }
  }

  /** Notifies replicas of ended predictions. @param reply the time, then ids and waiting nodes @param outcomes outcomes of this replica, by id */
  #announce(reply: unknown, outcomes?: ReadonlyMap<string, QueuedOutcome>): void {
    const [now, ...ended] = listOf(reply);
    const finishedAtMs = numberOf(now);
    const mails = new Map<string, string[]>();
    const add = (nodes: string, name: string, value: string) => {
      for (const node of nodes.split(" ")) mails.set(node, [...(mails.get(node) ?? []), name, value]);
    };
    for (let i = 0; i < ended.length; i += 2) {
      const [id, nodes] = [textOf(ended[i]), textOf(ended[i + 1])];
      const { record, bytes } = outcomes?.get(id) ?? {};
      if (nodes === "") continue;
      if (record === undefined || bytes === undefined || bytes > MAX_MAIL_BYTES) add(nodes, "read", id);
      else {
        const startedAtMs = record.startedAtMs && finishedAtMs - Math.max(0, record.finishedAtMs - record.startedAtMs);
        add(nodes, "end", JSON.stringify(valuesOf({ ...record, startedAtMs, finishedAtMs })));
      }
    }
    for (const [node, letters] of mails) this.#mail(node, letters);
  }

  #notify(nodes: string, name: string, id: string): void {
    for (const node of nodes.split(" ")) this.#mail(node, [name, id]);
  }

  /** Sends notifications to a node: names and values by turns. If they are lost, the node reads the predictions at its next poll. */
  #mail(node: string, letters: readonly string[]): void {
    if (node === "") return;
    const key = this.#mailOf(node);
    this.#link.call("xadd", key, "MAXLEN", "~", MAX_MAILS, "*", ...letters).catch(() => {});
    this.#link.call("pexpire", key, this.#retentionMs).catch(() => {});
  }

  #fetch(id: string, bytes: number): Promise<PredictionRecord | undefined> {
    const known = this.#fetching.get(id);
    if (known !== undefined) return known;
    const fetching = this.#linkFor(bytes)
      .fetch(bytes, "hmget", this.#key(id), ...RECORD_FIELDS)
      .then(recordOf)
      .finally(() => this.#fetching.delete(id));
    this.#fetching.set(id, fetching);
    return fetching;
  }

  async #requestsOf(entries: readonly StreamEntry[]): Promise<ClaimedRequest[]> {
    const nowMs = await this.#redisNowMs();
    const [late, claimed] = [[] as string[], [] as ClaimedRequest[]];
    for (const entry of entries.map(claimedOf)) {
      const { body: _body, deadlineMs: redisMs, ...facts } = entry;
      const leftMs = redisMs - nowMs;
      const deadlineMs = performance.now() + leftMs;
      if (leftMs <= 0) late.push(facts.id);
      else claimed.push({ ...facts, deadlineMs, deaths: 0, load: () => this.#load(entry) });
    }
    // If this call fails, `tend` ends the predictions later.
    if (late.length > 0) void this.#end(late, "dropped").catch(() => {});
    return claimed;
  }

  async #load({ deadlineMs, bytes, body: found, ...facts }: ClaimedEntry): Promise<PredictionRequest | undefined> {
    let body = bodyOf(found);
    if (body.length === 0) {
      body = bodyOf(await this.#linkFor(bytes).fetch(bytes, "hget", this.#key(facts.id), "body"));
    }
    if (body.length > 0) return { ...facts, body };
    log.error(`Redis lost the request of prediction ${facts.id}: it fails`);
    return undefined;
  }

  async #redisNowMs(): Promise<number> {
    if (this.#redisClockMs === undefined) {
      const [seconds, microseconds] = listOf(await this.#link.call("time")).map(numberOf);
      this.#redisClockMs = 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
    }
    return this.#redisClockMs + performance.now();
  }

  #key(id: string): string {
    return `${this.#base}p:${id}`;
  }

  #keys(named: readonly { readonly id: string }[]): string[] {
    return named.map(({ id }) => this.#key(id));
  }

  #mailOf(node: string): string {
    return `${this.#base}mail:${node}`;
  }

  /** Runs a script that ends predictions. @param options.queue name of their queue, by default this one */
  #runEnding(
    script: LuaScript,
    ids: readonly string[],
    args: readonly Argument[],
    { queue = this.#options.name, ...options }: RunOptions & { readonly queue?: string } = {},
  ): Promise<unknown> {
    const names = [`${this.#base}work:${queue}`, `${this.#base}totals:${queue}`, this.#deadlines, this.#due];
    const keys = [...names, ...ids.map((id) => this.#key(id))];
    const webhookLeaseMs = this.#options.deliversWebhooks ? this.leaseMs : 0;
    return this.#run(script, keys, [this.#retentionMs, webhookLeaseMs, ...args], options);
  }

  #run(
    script: LuaScript,
    keys: readonly string[],
    args: readonly Argument[],
    { link = this.#link, answerBytes = 0 }: RunOptions = {},
  ): Promise<unknown> {
    return link.run(script, keys, args, answerBytes);
  }

  /** The connection for a command. `bytes` is the size of the largest value in the command or its answer. */
  #linkFor(bytes: number): RedisLink {
    return bytes > LARGE_VALUE_BYTES ? this.#options.largeLink : this.#link;
  }
}

function pagesOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / MAX_COUNT) }, (_, i) =>
    all.slice(i * MAX_COUNT, (i + 1) * MAX_COUNT),
  );
}
