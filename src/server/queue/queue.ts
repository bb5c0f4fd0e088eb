/** The Redis queue that replicas share. Most methods run one command or script. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { checksumOfTexts, DamagedValue, summed, unsummed } from "../predictions/checksum.ts";
import { LargeText, piecesOf } from "../predictions/large-text.ts";
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import { originText, type UnfinishedRequest } from "../predictions/store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { CallBatch } from "./call-batch.ts";
import { LARGE_VALUE_BYTES, LargeParts, type LargeValues } from "./large-values.ts";
import { mendScript } from "./mend-script.ts";
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
import { type Argument, foreignIn, type LuaScript, type RedisLink } from "./redis-link.ts";
import {
  bytesOf,
  type ClaimedEntry,
  claimedOf,
  damaged,
  entriesOf,
  entryOf,
  listOf,
  numberOf,
  type Place,
  type ReadRecord,
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
  /** Stores large values outside Redis; undefined if Redis stores all values. */
  readonly large?: LargeValues | undefined;
  /** Whether this replica sends the webhooks of the predictions that it ends. */
  readonly deliversWebhooks?: boolean;
}

interface PlacedRequest extends QueuedRequest {
  readonly place: Place;
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
/**
 * Maximum bytes of a body in the stream entry of its prediction, which scripts read whole. A larger body has its own Redis key, or is in the bucket.
 */
const MAX_ENTRY_BYTES = 65_536;

/** Arguments that may be the id of a prediction. */
const possibleId = /^[\w-]{8,128}$/;

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
  readonly #large: LargeParts;
  readonly #creates: CallBatch<PlacedRequest, Created>;
  readonly #reads: CallBatch<{ readonly id: string; readonly isAwaited: boolean }, unknown>;
  /** Large records that are being read, by id. Concurrent readers of an id share one transfer. */
  readonly #fetching = new Map<string, Promise<ReadRecord | null>>();
  /** Redis' clock minus `performance.now()`, in milliseconds; undefined before the first answer. */
  #redisClockMs: number | undefined;

  constructor(options: QueueOptions) {
    const { link, largeLink, name, node, leaseMs, retention, timeoutMs, limits, large } = options;
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
    this.#large = new LargeParts({ queue: name, node, values: large });
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
    if (request.bytes <= MAX_ENTRY_BYTES) return this.#creates.ask({ ...request, place: "" });
    // A body with an id that a client chose stays in Redis. In the bucket, a second request with this id would replace it.
    if (request.digest !== undefined || !(await this.#large.putBody(request)))
      return this.#createInRedis({ ...request, place: "redis" });
    const created = await this.#creates.ask({ ...request, place: "bucket" });
    if ("limit" in created) this.#large.deleteBody(request.id);
    return created;
  }

  /**
   * Reads a prediction; undefined for an unknown id.
   * @param isAwaited whether Redis notifies this replica when the prediction ends
   * @throws SconceError `predictions_unusable` for an outcome that the disk of Redis changed
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
    const entries = entriesOf(await this.#mending([], () => link.call("xreadgroup", ...options)));
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

  /** Ids of the unfinished predictions that this replica has claimed, at most 1000. */
  async claimedIds(): Promise<string[]> {
    return listOf(await this.#run(scripts.claimedScript, [])).map(textOf);
  }

  async makeGroup(): Promise<void> {
    try {
      await this.#mending([], () => this.#link.call("xgroup", "CREATE", this.#work, "workers", "0", "MKSTREAM"));
    } catch (error) {
      // BUSYGROUP means that another replica has created the group.
      const cause = error instanceof SconceError ? error.cause : undefined;
      if (!(cause instanceof Error && cause.message.includes("BUSYGROUP"))) throw error;
    }
  }

  async finish(outcomes: readonly QueuedOutcome[]): Promise<void> {
    const args: Argument[] = [];
    const stored = await Promise.all(outcomes.map((each) => this.#large.putMembers(each)));
    for (const [i, { record }] of outcomes.entries()) {
      const { id, outcome, itemsDone, logs, startedAtMs, finishedAtMs, model } = record;
      const membersNode = stored[i] ?? "";
      const members = membersNode === "" ? String(outcome.members) : "";
      const startedAgoMs = startedAtMs === undefined ? "" : Math.max(0, finishedAtMs - startedAtMs);
      const checksum = checksumOfTexts(id, [logs, ...(membersNode === "" ? [members] : piecesOf(outcome.members))]);
      args.push(
        id,
        outcome.status,
        members,
        startedAgoMs,
        itemsDone,
        logs,
        membersNode,
        model?.reference ?? "",
        checksum,
      );
    }
    const largest = Math.max(...outcomes.map(({ bytes }, i) => (stored[i] === undefined ? bytes : 0)));
    await this.#run(scripts.finishScript, args, { link: this.#linkFor(largest) });
    for (const { record, hasLargeBody } of outcomes) if (hasLargeBody) this.#large.deleteBody(record.id);
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
    return entriesOf(await this.#mending([], () => link.call("xread", ...options)));
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
      const [id, createdAtMs, text] = [textOf(rest[i]), numberOf(rest[i + 1]), textOf(rest[i + 2])];
      const webhook = unsummed(id, text);
      claimed.push({ id, createdAtMs, webhook });
    }
    return { count: numberOf(count), claimed };
  }

  async #createAll(requests: readonly PlacedRequest[], link: RedisLink): Promise<Created[]> {
    const { maxQueuedItems, maxQueuedBytes } = this.#limits;
    const args: Argument[] = [maxQueuedItems, maxQueuedBytes, this.#timeoutMs];
    for (const request of requests) this.#addTo(args, request);
    const reply = await this.#run(scripts.createScript, args, { link });
    const [items = 0, createdAtMs = 0, ...created] = listOf(reply).map(numberOf);
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /** Sends a large request over a separate connection, so that small requests do not wait for it. */
  async #createInRedis(request: PlacedRequest): Promise<Created> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    const [created] = await this.#createAll([request], this.#largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /**
   * Parses a record, and reads members that are in the bucket.
   * @param reply a record; the size of a record that is too large for the answer; or null for an unknown id
   */
  async #whole(id: string, reply: unknown): Promise<PredictionRecord | undefined> {
    try {
      const read = typeof reply === "number" ? await this.#fetch(id, reply) : recordOf(reply);
      if (read === null) return undefined;
      const { record, membersNode, checksum } = read;
      if (membersNode === undefined || record.outcome === undefined) return record;
      const members = await this.#large.members(record.id, membersNode);
      if (members === undefined) return undefined;
      if (checksumOfTexts(id, [record.logs, members]) !== checksum) throw damaged(id);
      return { ...record, outcome: { ...record.outcome, members: new LargeText([members]) } };
    } catch (error) {
      throw error instanceof DamagedValue ? unusable(error) : error;
    }
  }

  #fetch(id: string, bytes: number): Promise<ReadRecord | null> {
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
        return {
          id,
          kind,
          count,
          leftMs,
          bytes,
          hasLargeBody: entry.place === "bucket",
          load: () => this.#load(entry),
        };
      });
  }

  async #load(entry: ClaimedEntry): Promise<UnfinishedRequest> {
    const { id, kind, count, createdAtMs, leftMs, timeoutMs, isWaitedFor, bytes, place, kept } = entry;
    const beganMs = performance.now();
    const inRedis = async () => bytesOf(await this.#linkFor(bytes).fetch(bytes, "get", `${this.#base}b:${id}`));
    const head = place === "redis" ? await inRedis() : kept;
    const body = place === "bucket" ? await this.#large.body(id) : undefined;
    const request = requestOf(entry, [head, body]);
    if (request.isDamaged) log.error(`Redis lost or changed the request of prediction ${id}: it fails`);
    const facts = { id, kind, count, createdAtMs, timeoutMs, isWaitedFor, deaths: 0 };
    return { ...facts, ...request, leftMs: leftMs - (performance.now() - beganMs) };
  }

  async #readClock(): Promise<number> {
    const [seconds, microseconds] = listOf(await this.#link.call("time")).map(numberOf);
    return 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
  }

  #addTo(args: Argument[], request: PlacedRequest): void {
    const { id, kind, count, bytes, timeoutMs, isWaitedFor, body, origin, place, digest = "" } = request;
    const webhook = request.webhook === undefined ? "" : webhookText(request.webhook);
    const line = `${originText(origin)}\t${webhook}\n`;
    const sent = place === "bucket" ? "" : body;
    const data = typeof sent === "string" ? line + sent : Buffer.concat([Buffer.from(line), sent]);
    const checksum = checksumOfTexts(id, [line, body]);
    const flags = `${place} ${isWaitedFor ? this.node : ""} ${digest} ${checksum}`;
    args.push(id, count, bytes, Math.ceil(timeoutMs), kind, flags, data, summed(id, webhook));
  }

  #run(script: LuaScript, args: readonly Argument[], { link = this.#link, answerBytes = 0 }: RunOptions = {}) {
    const ids = () => args.filter((arg) => typeof arg === "string").filter((arg) => possibleId.test(arg));
    return this.#mending(ids, () => link.run(script, this.#work, [...this.#scriptArgs, ...args], answerBytes));
  }

  /**
   * Sends a command. If it fails because another program wrote to the queue's keys, removes these values and sends it again.
   * @param ids predictions whose keys the command uses
   */
  async #mending<T>(ids: readonly string[] | (() => readonly string[]), send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      const found = foreignIn(error);
      if (found === undefined) throw error;
      const named = typeof ids === "function" ? ids() : ids;
      const unique = [...new Set([...named, ...(found.id === undefined ? [] : [found.id])])];
      const reply = await this.#link.run(mendScript, this.#work, [...this.#scriptArgs, ...unique]);
      const removed = listOf(reply).map(textOf);
      if (removed.length === 0) throw error;
      for (const each of removed) {
        const [key = "", ...fault] = each.split(" ");
        log.error(`Another program wrote to the queue: ${key} ${fault.join(" ")}; sconce removed that`);
      }
      return send();
    }
  }

  /** The connection for a command. `bytes` is the size of the largest value in the command or its answer. */
  #linkFor(bytes: number): RedisLink {
    return bytes > LARGE_VALUE_BYTES ? this.#largeLink : this.#link;
  }
}

function unusable(cause: DamagedValue): SconceError {
  return new SconceError("predictions_unusable", cause.message, { cause });
}
