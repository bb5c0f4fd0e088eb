/** What replicas do to the predictions that they share: each method is one script, and what many ask for in one turn of the loop is one call. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { LargeText } from "../predictions/large-text.ts";
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import { originText } from "../predictions/stored-origin.ts";
import { webhookText } from "../webhooks/webhook.ts";
import type { LargeLink } from "./large-link.ts";
import { LargeParts } from "./large-parts.ts";
import { LARGE_VALUE_BYTES, type LargeValues } from "./large-values.ts";
import type {
  Created,
  End,
  Progress,
  QueuedRequest,
  QueueFacts,
  Taken,
  TakenRequest,
  WebhooksTaken,
  WebhookTurn,
} from "./queue-messages.ts";
import { type Argument, foreignIn, type LuaScript, type RedisLink } from "./redis-link.ts";
import {
  entriesOf,
  entryOf,
  listOf,
  numberOf,
  type Place,
  type ReadRecord,
  recordOf,
  type StreamEntry,
  takenOf,
  textOf,
} from "./replies.ts";
import { KEY_PREFIX, NO_LIMIT } from "./script-prelude.ts";
import * as scripts from "./scripts.ts";
import { TakenBodies } from "./taken-bodies.ts";
import { TurnBatch } from "./turn-batch.ts";

export interface QueueOptions {
  readonly link: RedisLink;
  readonly largeLink: LargeLink;
  /** Replicas with the same name share predictions. */
  readonly name: string;
  /** Of this process, among all replicas. */
  readonly node: string;
  readonly leaseMs: number;
  /** How long an end can be read; how many of them, and how many bytes. */
  readonly retention: { readonly ms: number; readonly count?: number | undefined; readonly bytes: number };
  /** Longest time limit of what comes through this process. */
  readonly timeoutMs: number;
  readonly limits: { readonly maxQueuedItems: number; readonly maxQueuedBytes: number };
  /** By default everything lies in Redis. */
  readonly large?: LargeValues | undefined;
  /** Whether this process tells the webhooks of what it ends. */
  readonly tells?: boolean;
}

interface Kept extends QueuedRequest {
  readonly place: Place;
}

type CommandLink = Pick<LargeLink, "fetch" | "run">;

interface Sending {
  /** By default the one for small commands. */
  readonly link?: CommandLink;
  /** That it may answer with, where these are many. */
  readonly answerBytes?: number;
}

/** The least that an end can be read: who waits may have to fetch it. */
const MIN_RETENTION_MS = 10_000;
/** Larger bodies have keys of their own: scripts that look at entries read all of them. */
const MAX_ENTRY_BYTES = 65_536;

/** Ids that servers make, and ids that clients choose. */
const possibleId = /^[\w-]{8,128}$/;

export class Queue {
  readonly node: string;
  readonly leaseMs: number;
  readonly #link: RedisLink;
  readonly #largeLink: LargeLink;
  readonly #base: string;
  readonly #work: string;
  /** What each script is told first. */
  readonly #asker: readonly Argument[];
  readonly #timeoutMs: number;
  readonly #limits: QueueOptions["limits"];
  readonly #large: LargeParts;
  readonly #bodies: TakenBodies;
  readonly #creates: TurnBatch<Kept, Created>;
  readonly #reads: TurnBatch<{ readonly id: string; readonly isAwaited: boolean }, unknown>;
  /** Large records that are on their way, by id: whoever asks for one meanwhile has the same. */
  readonly #fetching = new Map<string, Promise<ReadRecord | null>>();
  /** By how much the clock of Redis is ahead of `performance.now()`. */
  #aheadMs: number | undefined;

  constructor(options: QueueOptions) {
    const { link, largeLink, name, node, leaseMs, retention, timeoutMs, limits, large, tells = false } = options;
    this.#link = link;
    this.#largeLink = largeLink;
    this.node = node;
    this.leaseMs = leaseMs;
    this.#base = `${KEY_PREFIX}{${name}}:`;
    this.#work = `${this.#base}work`;
    const { ms, count = NO_LIMIT, bytes } = retention;
    this.#asker = [`${Math.max(MIN_RETENTION_MS, ms)} ${count} ${bytes} ${tells ? leaseMs : 0}`, node];
    this.#timeoutMs = timeoutMs;
    this.#limits = limits;
    this.#large = new LargeParts({ queue: name, node, values: large });
    this.#bodies = new TakenBodies({
      large: this.#large,
      get: (id, size) => this.#linkFor(size).fetch(size, "get", `${this.#base}b:${id}`),
    });
    this.#creates = new TurnBatch({
      bytesOf: ({ bytes }) => bytes,
      call: (requests) => this.#createAll(requests, this.#link),
    });
    this.#reads = new TurnBatch({
      call: async (asked) => {
        // Who waits for some of them hears of the others too; that is no harm.
        const purpose = asked.some(({ isAwaited }) => isAwaited) ? "awaited" : "";
        return listOf(await this.#run(scripts.readScript, [purpose, ...asked.map(({ id }) => id)]));
      },
    });
  }

  /** @throws SconceError `queue_unavailable`, as all of these */
  async create(request: QueuedRequest): Promise<Created> {
    if (request.bytes <= MAX_ENTRY_BYTES) return this.#creates.ask({ ...request, place: "" });
    // Under an id that others may send bodies for, theirs is not to take its place.
    if (request.digest !== undefined || !(await this.#large.putBody(request)))
      return this.#createInRedis({ ...request, place: "redis" });
    const created = await this.#creates.ask({ ...request, body: "", place: "bucket" });
    if ("limit" in created) this.#large.deleteBody(request.id);
    return created;
  }

  /** @param isAwaited whether the end is to come by mail */
  async read(id: string, { isAwaited }: { isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    return this.#whole(id, await this.#reads.ask({ id, isAwaited }));
  }

  /** Of one whose client chose the id. */
  async digestOf(id: string): Promise<string> {
    return textOf(await this.#mending([id], () => this.#link.call("get", `${this.#base}d:${id}`)));
  }

  /** @param isForced not to wait for the worker that has it */
  async cancel(kind: Kind, id: string, isForced: boolean): Promise<PredictionRecord | undefined> {
    const record = await this.#whole(id, await this.#run(scripts.cancelScript, [kind, id, isForced ? 1 : 0]));
    return record?.kind === kind ? record : undefined;
  }

  /** Cancels what nobody waits for, as `cancel` does. */
  async forsake(ones: readonly { readonly kind: Kind; readonly id: string }[]): Promise<void> {
    await this.#run(
      scripts.forsakeScript,
      ones.flatMap(({ kind, id }) => [kind, id]),
    );
  }

  /** Takes predictions that no worker had; waits up to `blockMs` for them. */
  async take(link: RedisLink, count: number, blockMs: number): Promise<Taken> {
    const options = ["GROUP", "workers", this.node, "COUNT", count, "BLOCK", blockMs, "STREAMS", this.#work, ">"];
    const entries = entriesOf(await this.#mending([], () => link.call("xreadgroup", ...options)));
    return { givenUp: 0, requests: entries.length === 0 ? [] : await this.#requestsOf(entries) };
  }

  /** Takes those of workers that have given no sign for as long as a lease. @param after where to go on; "-" first, "" last */
  async reclaim(after: string, count: number): Promise<Taken & { readonly next: string }> {
    const reply = await this.#run(scripts.reclaimScript, [this.leaseMs, after, count], {
      answerBytes: count * MAX_ENTRY_BYTES,
    });
    const [givenUp, next, ...entries] = listOf(reply);
    return { givenUp: numberOf(givenUp), next: textOf(next), requests: await this.#requestsOf(entries.map(entryOf)) };
  }

  /** Ids of what this worker was given and has not ended. */
  async own(): Promise<string[]> {
    return listOf(await this.#run(scripts.ownScript, [])).map(textOf);
  }

  async makeGroup(): Promise<void> {
    try {
      await this.#mending([], () => this.#link.call("xgroup", "CREATE", this.#work, "workers", "0", "MKSTREAM"));
    } catch (error) {
      // Another replica was faster.
      const cause = error instanceof SconceError ? error.cause : undefined;
      if (!(cause instanceof Error && cause.message.includes("BUSYGROUP"))) throw error;
    }
  }

  async finish(ends: readonly End[]): Promise<void> {
    const args: Argument[] = [];
    const elsewhere = await Promise.all(ends.map((end) => this.#large.putMembers(end)));
    for (const [i, { record }] of ends.entries()) {
      const { id, outcome, itemsDone, logs, startedAtMs, finishedAtMs } = record;
      const membersOf = elsewhere[i] ?? "";
      const members = membersOf === "" ? String(outcome.members) : "";
      const startedAgoMs = startedAtMs === undefined ? "" : Math.max(0, finishedAtMs - startedAtMs);
      args.push(id, outcome.status, members, startedAgoMs, itemsDone, logs, membersOf);
    }
    const largest = Math.max(...ends.map(({ bytes }, i) => (elsewhere[i] === undefined ? bytes : 0)));
    await this.#run(scripts.finishScript, args, { link: this.#linkFor(largest) });
    for (const { record, hasLargeBody } of ends) if (hasLargeBody) this.#large.deleteBody(record.id);
  }

  async tell(progress: readonly Progress[]): Promise<void> {
    const nowMs = Date.now();
    const of = progress.flatMap(({ id, startedAtMs, itemsDone, logBytes, logs }) => [
      id,
      startedAtMs === undefined ? "" : Math.max(0, nowMs - startedAtMs),
      itemsDone,
      logBytes,
      logs,
    ]);
    await this.#run(scripts.progressScript, of);
  }

  /** Goes on having these. @returns those that this worker has no longer, and those that are to be cancelled */
  async renew(ids: readonly string[]): Promise<{ lost: string[]; cancelled: string[] }> {
    const [lost, cancelled] = listOf(await this.#run(scripts.renewScript, ids));
    return { lost: listOf(lost).map(textOf), cancelled: listOf(cancelled).map(textOf) };
  }

  async giveBack(taken: readonly { readonly id: string; readonly hasBegun: boolean }[]): Promise<void> {
    const of = taken.flatMap(({ id, hasBegun }) => [id, hasBegun ? 1 : 0]);
    await this.#run(scripts.giveBackScript, of);
  }

  /** This worker takes no more: those that wait for a stop need not count on it. */
  async leave(): Promise<void> {
    await this.#run(scripts.leaveScript, []);
  }

  /** Waits up to `blockMs` for mail of this node that came after `after`. */
  async readMail(link: RedisLink, after: string, blockMs: number): Promise<StreamEntry[]> {
    const key = `${this.#base}mail:${this.node}`;
    const options = ["COUNT", 1000, "BLOCK", blockMs, "STREAMS", key, after];
    return entriesOf(await this.#mending([], () => link.call("xread", ...options)));
  }

  /**
   * Ends what is late, of all replicas.
   * @param lastMail may be forgotten, and all before it
   * @param isWorker whether this replica runs predictions
   */
  async tend(lastMail: string, isWorker: boolean): Promise<QueueFacts> {
    const args = [lastMail, this.leaseMs, this.#timeoutMs, isWorker ? 1 : 0];
    const facts = listOf(await this.#run(scripts.tendScript, args)).map(numberOf);
    const [nowMs = 0, items = 0, bytes = 0, endedItems = 0, waiting = 0, taken = 0, ageMs = 0, ...more] = facts;
    const [workers = 0, kept = 0, keptBytes = 0] = more;
    this.#aheadMs = nowMs - performance.now();
    return { items, bytes, endedItems, waiting, taken, ageMs, workers, kept, keptBytes };
  }

  /** Lets go of webhooks that were told, goes on telling others, and takes those that nobody tells. */
  async webhooks({ leaseMs, most, told, ours }: WebhookTurn): Promise<WebhooksTaken> {
    const named = [...told, ...ours].flatMap(({ id, createdAtMs = 0 }) => [id, createdAtMs]);
    const reply = await this.#run(scripts.webhookScript, [leaseMs, most, told.length, ...named]);
    const [count, ...taken] = listOf(reply);
    const due: WebhooksTaken["due"][number][] = [];
    for (let i = 0; i < taken.length; i += 3) {
      const [id, createdAtMs, webhook] = taken.slice(i, i + 3);
      due.push({ id: textOf(id), createdAtMs: numberOf(createdAtMs), webhook: textOf(webhook) });
    }
    return { count: numberOf(count), due };
  }

  async #createAll(requests: readonly Kept[], link: CommandLink): Promise<Created[]> {
    const { maxQueuedItems, maxQueuedBytes } = this.#limits;
    const args: Argument[] = [maxQueuedItems, maxQueuedBytes, this.#timeoutMs];
    for (const request of requests) this.#addTo(args, request);
    const reply = await this.#run(scripts.createScript, args, { link });
    const [items = 0, createdAtMs = 0, ...created] = listOf(reply).map(numberOf);
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /** A large one alone: small ones that come in the same turn must not wait for it. */
  async #createInRedis(request: Kept): Promise<Created> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    const [created] = await this.#createAll([request], this.#largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /** A record with its members, wherever they are. @param reply the record, or its size */
  async #whole(id: string, reply: unknown): Promise<PredictionRecord | undefined> {
    const read = typeof reply === "number" ? await this.#fetch(id, reply) : recordOf(reply);
    if (read === null) return undefined;
    const { record, membersOf } = read;
    if (membersOf === undefined || record.outcome === undefined) return record;
    const members = await this.#large.members(record.id, membersOf);
    if (members === undefined) return undefined;
    return { ...record, outcome: { ...record.outcome, members: new LargeText([members]) } };
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

  async #requestsOf(entries: readonly StreamEntry[]): Promise<TakenRequest[]> {
    this.#aheadMs ??= await this.#lookAhead();
    const nowMs = this.#aheadMs + performance.now();
    const taken = entries.map((entry) => takenOf(entry, nowMs));
    const late = taken.filter(({ request }) => request.leftMs <= 0).map(({ request }) => request.id);
    // Where the queue is away now, their time is up when it is looked at.
    if (late.length > 0) void this.#run(scripts.readScript, ["late", ...late]).catch(() => {});
    return taken.filter(({ request }) => request.leftMs > 0).map((entry) => this.#bodies.requestOf(entry));
  }

  async #lookAhead(): Promise<number> {
    const [seconds, microseconds] = listOf(await this.#link.call("time")).map(numberOf);
    return 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
  }

  #addTo(args: Argument[], request: Kept): void {
    const { id, kind, count, bytes, timeoutMs, isWaitedFor, body, origin, place, digest = "" } = request;
    const webhook = request.webhook === undefined ? "" : webhookText(request.webhook);
    const line = `${originText(origin)}\t${webhook}\n`;
    const data = typeof body === "string" ? line + body : Buffer.concat([Buffer.from(line), body]);
    const asker = `${place} ${isWaitedFor ? this.node : ""} ${digest}`;
    args.push(id, count, bytes, Math.ceil(timeoutMs), kind, asker, data, webhook);
  }

  #run(script: LuaScript, args: readonly Argument[], { link = this.#link, answerBytes = 0 }: Sending = {}) {
    const ids = () => args.filter((arg) => typeof arg === "string").filter((arg) => possibleId.test(arg));
    return this.#mending(ids, () => link.run(script, this.#work, [...this.#asker, ...args], answerBytes));
  }

  /**
   * Sends a command again after removing what another program wrote in the keys of the queue.
   * @param ids predictions whose keys the command reads
   */
  async #mending<T>(ids: readonly string[] | (() => readonly string[]), send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      const found = foreignIn(error);
      if (found === undefined) throw error;
      const named = typeof ids === "function" ? ids() : ids;
      const unique = [...new Set([...named, ...(found.id === undefined ? [] : [found.id])])];
      const removed = listOf(await this.#link.run(scripts.mendScript, this.#work, [...this.#asker, ...unique])).map(
        textOf,
      );
      if (removed.length === 0) throw error;
      for (const each of removed) {
        const [key = "", ...fault] = each.split(" ");
        log.error(`Another program wrote to the queue: ${key} ${fault.join(" ")}; sconce removed that`);
      }
      return send();
    }
  }

  /** @param bytes of one value */
  #linkFor(bytes: number): CommandLink {
    return bytes > LARGE_VALUE_BYTES ? this.#largeLink : this.#link;
  }
}
