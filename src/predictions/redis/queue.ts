/** The Redis queue that servers share. Most methods run one command or script. */
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { CANCELED, type EndedRecord, type PredictionRecord } from "../record.ts";
import type { PredictionRequest } from "../request.ts";
import type { Accepted, Claimed, Full } from "../store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { CallBatch } from "./call-batch.ts";
import { type EventPage, fieldsOf, pageOf } from "./event-page.ts";
import { Keys } from "./keys.ts";
import { type Letter, Mail } from "./mail.ts";
import { bodyOf, type ClaimedEntry, claimedOf, type QueuedRequest, requestText } from "./queued-request.ts";
import { type Argument, LARGE_VALUE_BYTES, type RedisLink } from "./redis-link.ts";
import { entriesOf, entryOf, letterOf, listOf, numberOf, RECORD_FIELDS, recordOf, textOf } from "./replies.ts";
import * as scripts from "./scripts.ts";

export interface QueueOptions {
  readonly link: RedisLink;
  readonly largeLink: RedisLink;
  /** Repository of the model. A queue finds all predictions of its repository. */
  readonly repository: string;
  /** Name of the queue. Replicas with the same name share predictions. */
  readonly name: string;
  /** Id of this node. */
  readonly node: string;
  readonly leaseMs: number;
  /** Milliseconds for which ended predictions stay readable. */
  readonly retentionMs: number;
  readonly limits: { readonly maxQueuedItems: number; readonly maxQueuedBytes: number };
  /** Whether this node sends the webhooks of the predictions that it ends. */
  readonly deliversWebhooks?: boolean;
}

/** An outcome, and its size in bytes. */
export interface QueuedOutcome {
  readonly record: EndedRecord;
  readonly bytes: number;
}

/** The progress of a claimed prediction since the last report. */
export interface LeaseReport {
  readonly id: string;
  /** Undefined to renew the lease only. */
  readonly progress?: {
    readonly startedAtMs: number | undefined;
    readonly itemsDone: number;
    /** Bytes of the logs that Redis has acknowledged. `logs` is the text after these bytes. */
    readonly logBytes: number;
    readonly logs: string;
    readonly page: EventPage | undefined;
    /** Size of the report. */
    readonly bytes: number;
  };
}

/** State of a lease in Redis. `lost`: the prediction has ended, or another node has claimed it. */
export type LeaseState = "lost" | "unwatched" | "watched";

/** Maximum predictions in one call of a script, which stops all other commands of Redis meanwhile. */
export const MAX_COUNT = 256;
const MAX_CREATES = 16;
/** Limits of the retention time in milliseconds. Waiting clients read an outcome after its notification. */
const RETENTION_MS = { least: 10_000, most: 1e12 };
/** Milliseconds after the deadline in which the worker can end the prediction with its outputs so far. Then any node ends it. */
const GRACE_MS = 1500;
/** Largest outcome in a notification, in bytes. Nodes read a larger outcome. */
const MAX_LETTER_BYTES = 65_536;
/** Milliseconds of silence after which a worker without leases counts as ended. */
const IDLE_MS = 60_000;
/** Maximum pages of events in one answer, and their usual size at most. */
const MAX_PAGES = 16;
const PAGES_BYTES = 2 ** 22;

interface Ending {
  readonly hasEnded: boolean;
  /** The waiting nodes, or the worker that must end the prediction. */
  readonly nodes: string;
}

export class Queue {
  readonly link: RedisLink;
  readonly node: string;
  readonly leaseMs: number;
  readonly keys: Keys;
  readonly mail: Mail;
  readonly #options: QueueOptions;
  readonly #retentionMs: number;
  readonly #creates: CallBatch<QueuedRequest, Accepted | Full>;
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
    this.mail = new Mail(link, this.keys, node);
    this.#creates = new CallBatch(MAX_CREATES, (requests) => this.#createAll(requests, link));
  }

  /** Adds a prediction to the queue. Every method may throw SconceError `queue_unavailable`. */
  async create(request: QueuedRequest): Promise<Accepted | Full> {
    if (request.bytes <= LARGE_VALUE_BYTES) return this.#creates.ask(request);
    // A large request has a separate connection, so that small requests do not wait for it.
    const [created] = await this.#createAll([request], this.#options.largeLink);
    if (created === undefined) throw new Error("no answer");
    return created;
  }

  /** Reads a prediction of any queue of the repository; undefined for an unknown id. */
  async read(id: string): Promise<PredictionRecord | undefined> {
    const reply = await this.link.call("hmget", this.keys.prediction(id), ...RECORD_FIELDS, "large");
    const bytes = numberOf(listOf(reply).at(-1));
    const record = recordOf(reply);
    if (bytes === 0 || record?.outcome === undefined) return record;
    const members = await this.#options.largeLink.fetch(bytes, "hget", this.keys.prediction(id), "largeMembers");
    return { ...record, outcome: { ...record.outcome, members: textOf(members) } };
  }

  /** Lets nodes notify this one of the end of a prediction of any queue, and of its events if `isWatching`. */
  async follow(id: string, isWatching: boolean): Promise<void> {
    const { keys, link, node } = this;
    const args = [node, isWatching ? 1 : ""];
    const [queue, entry] = listOf(await link.run(scripts.followScript, [keys.prediction(id)], args)).map(textOf);
    if (queue === undefined || entry === undefined) return;
    const [pending] = listOf(await link.call("xpending", keys.work(queue), "workers", entry, entry, 1));
    this.mail.send([[textOf(listOf(pending)[1]), [["watched", id]]]]);
  }

  /**
   * Reads pages of events of a running prediction.
   * @param after id of the last page of the earlier read, or "-" to read from the start
   * @returns the pages with their ids, and whether there may be more
   */
  async readEvents(id: string, after: string): Promise<{ pages: (EventPage & { id: string })[]; isMore: boolean }> {
    const from = after === "-" ? after : `(${after}`;
    const reply = await this.link.fetch(PAGES_BYTES, "xrange", this.keys.events(id), from, "+", "COUNT", MAX_PAGES);
    const pages = listOf(reply).map((each) => pageOf(entryOf(each)));
    return { pages, isMore: pages.length === MAX_PAGES };
  }

  /**
   * Cancels a prediction. The node that runs the prediction ends it with its outputs so far, and this node is notified.
   * @param isForced whether to end it at once instead
   */
  async cancel(id: string, isForced = false): Promise<void> {
    const { hasEnded, nodes } = await this.#fail(id, CANCELED, isForced);
    if (!hasEnded) this.mail.send([[nodes, [["canceled", id]]]]);
  }

  /** Ends a prediction of any queue of the repository whose time limit has passed, unless its worker still may end it. */
  async endLate(id: string): Promise<void> {
    const reply = await this.link.call("hmget", this.keys.prediction(id), "created", "deadline");
    const [createdAtMs = 0, deadlineMs = 0] = listOf(reply).map(numberOf);
    const seconds = Math.round((deadlineMs - createdAtMs) / 10) / 100;
    await this.#fail(id, `Timed out after ${seconds} s`, (await this.nowMs()) >= deadlineMs + GRACE_MS);
  }

  /** Claims new predictions. Waits up to `blockMs` milliseconds if there are none. */
  async claim(link: RedisLink, count: number, blockMs: number): Promise<Claimed[]> {
    const options = ["GROUP", "workers", this.node, "COUNT", count, "BLOCK", blockMs, "STREAMS", this.keys.work(), ">"];
    const entries = entriesOf(await link.call("xreadgroup", ...options));
    return Promise.all(entries.map((entry) => this.#claimed(claimedOf(entry, 1))));
  }

  /** Claims predictions whose leases have ended. */
  async reclaim(count: number): Promise<Claimed[]> {
    const { link, node, leaseMs } = this;
    const work = this.keys.work();
    const pending = listOf(await link.call("xpending", work, "workers", "IDLE", leaseMs, "-", "+", count));
    const claims = pending.map(async (each) => {
      const [entry, worker, , before] = listOf(each);
      // An entry of this node is here because the answer of an earlier claim was lost.
      const deliveries = numberOf(before) + (textOf(worker) === node ? 0 : 1);
      // Claims nothing if another worker has claimed the entry meanwhile, because its lease is new.
      const reply = await link.call("xclaim", work, "workers", node, leaseMs, textOf(entry), "RETRYCOUNT", deliveries);
      return listOf(reply).map((found) => claimedOf(entryOf(found), deliveries));
    });
    return Promise.all((await Promise.all(claims)).flat().map((entry) => this.#claimed(entry)));
  }

  async makeGroup(): Promise<void> {
    try {
      await this.link.call("xgroup", "CREATE", this.keys.work(), "workers", "0", "MKSTREAM");
    } catch (error) {
      // BUSYGROUP means that another node has created the group.
      const cause = error instanceof SconceError ? error.cause : undefined;
      if (!(cause instanceof Error && cause.message.includes("BUSYGROUP"))) throw error;
    }
  }

  /** Stores outcomes of this worker, and notifies the waiting nodes. */
  async finish(outcomes: readonly QueuedOutcome[]): Promise<void> {
    const nowMs = await this.nowMs();
    const bytes = outcomes.map((each) => each.bytes);
    const started = outcomes.map(({ record: { startedAtMs, finishedAtMs } }) =>
      startedAtMs === undefined ? "" : Math.floor(nowMs - Math.max(0, finishedAtMs - startedAtMs)),
    );
    const fields = outcomes.map(({ record, bytes }, i) => {
      const { outcome, itemsDone, logs, model } = record;
      const { status, members } = outcome;
      const isLarge = bytes > LARGE_VALUE_BYTES;
      const large = isLarge ? ["large", bytes, "largeMembers", String(members)] : ["members", String(members)];
      const more = ["started", started[i] ?? "", "done", itemsDone, "logs", logs, "model", model?.reference ?? ""];
      return { id: record.id, fields: ["status", status, ...large, ...more] };
    });
    const link = this.#linkFor(Math.max(...bytes));
    const { endedMs, endings } = await this.#finish(fields, "worker", { link });
    this.mail.send(
      outcomes.map(({ record, bytes }, i) => {
        const isShort = bytes <= MAX_LETTER_BYTES;
        const times = { startedAtMs: started[i] || undefined, finishedAtMs: endedMs };
        const value = isShort ? letterOf({ ...record, ...times }) : record.id;
        return [endings[i]?.nodes ?? "", [[isShort ? "ended" : "read", value]]];
      }),
    );
  }

  /** Renews the leases of predictions, and stores their progress. */
  async renew(reports: readonly LeaseReport[]): Promise<LeaseState[]> {
    const nowMs = await this.nowMs();
    const args = reports.flatMap(({ progress }) => {
      if (progress === undefined) return [0];
      const { startedAtMs, itemsDone, logBytes, logs, page } = progress;
      const startedMs = startedAtMs === undefined ? "" : Math.floor(nowMs - Math.max(0, Date.now() - startedAtMs));
      const more = [startedMs, itemsDone, logBytes, logs, ...(page === undefined ? [] : fieldsOf(page))];
      return [more.length, ...more];
    });
    const names = reports.flatMap(({ id }) => [this.keys.prediction(id), this.keys.events(id)]);
    const link = this.#linkFor(Math.max(...reports.map(({ progress }) => progress?.bytes ?? 0)));
    const states = listOf(await link.run(scripts.renewScript, [this.keys.work(), ...names], [this.node, ...args]));
    const withEvents = reports.flatMap(({ id, progress }, i) =>
      progress?.page === undefined ? [] : [[textOf(states[i]), [["events" satisfies Letter, id]]] as const],
    );
    this.mail.send(withEvents);
    return states.map((state) => (state === 0 ? "lost" : state === 1 ? "unwatched" : "watched"));
  }

  /** Returns claimed predictions to the queue. The claim does not count as a death. @param isLeaving whether this node ends as a worker */
  async giveBack(ids: readonly string[], isLeaving = false): Promise<void> {
    const idleMs = isLeaving ? Math.max(IDLE_MS, this.leaseMs) : "";
    for (let i = 0; i === 0 || i < ids.length; i += MAX_COUNT) {
      const names = ids.slice(i, i + MAX_COUNT).map((id) => this.keys.prediction(id));
      await this.link.run(scripts.giveBackScript, [this.keys.work(), ...names], [this.node, idleMs]);
    }
  }

  /** The time in milliseconds by Redis' clock. @param isNew whether to read the clock, instead of the time since the last reading */
  async nowMs(isNew = false): Promise<number> {
    if (this.#redisClockMs === undefined || isNew) {
      const [seconds, microseconds] = listOf(await this.link.call("time")).map(numberOf);
      this.#redisClockMs = 1000 * (seconds ?? 0) + (microseconds ?? 0) / 1000 - performance.now();
    }
    return this.#redisClockMs + performance.now();
  }

  async #createAll(requests: readonly QueuedRequest[], link: RedisLink): Promise<(Accepted | Full)[]> {
    const { limits, name } = this.#options;
    const { keys } = this;
    const args: Argument[] = [limits.maxQueuedItems, limits.maxQueuedBytes, name];
    for (const request of requests) {
      const { id, kind, count, bytes, timeoutMs, digest = "", body, isWaitedFor, isWatched, webhook } = request;
      args.push(id, kind, count, bytes, Math.ceil(timeoutMs), isWaitedFor ? this.node : "", digest, isWatched ? 1 : "");
      args.push(webhook === undefined ? "" : webhookText(webhook), requestText(request));
      args.push(typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length));
    }
    const names = [keys.work(), keys.totals(), keys.deadlines, ...requests.map(({ id }) => keys.prediction(id))];
    const [items = 0, createdAtMs = 0, ...created] = listOf(await link.run(scripts.acceptScript, names, args)).map(
      numberOf,
    );
    return created.map((each) => (each === 0 ? { createdAtMs } : { limit: each === -2 ? "bytes" : "queue", items }));
  }

  /**
   * Ends a prediction of any queue of the repository as failed, and notifies the waiting nodes.
   * @param isForced whether to end it even if a worker runs it
   * @returns in `nodes` the worker that must end the prediction, if one runs it
   */
  async #fail(id: string, message: string, isForced: boolean): Promise<Ending> {
    const { keys, link, mail } = this;
    const queue = textOf(await link.call("hget", keys.prediction(id), "queue"));
    if (queue === "") {
      // The prediction has ended, or its keys were deleted.
      await link.call("zrem", keys.deadlines, id);
      return { hasEnded: true, nodes: "" };
    }
    const fields = ["status", "failed", "members", `"error_message":${JSON.stringify(message)}`];
    const { endings } = await this.#finish([{ id, fields }], isForced ? "any" : "unclaimed", { queue });
    const [ending = { hasEnded: true, nodes: "" }] = endings;
    if (ending.hasEnded) mail.send([[ending.nodes, [["read", id]]]]);
    return ending;
  }

  async #finish(
    ended: readonly { readonly id: string; readonly fields: readonly Argument[] }[],
    mode: "worker" | "unclaimed" | "any",
    { queue, link = this.link }: { readonly queue?: string; readonly link?: RedisLink },
  ): Promise<{ endedMs: number; endings: readonly Ending[] }> {
    const { keys } = this;
    const webhookLeaseMs = mode === "worker" && this.#options.deliversWebhooks ? this.leaseMs : 0;
    const names = [keys.work(queue), keys.totals(queue), keys.deadlines, keys.due];
    const args = ended.flatMap(({ fields }) => [fields.length, ...fields]);
    const reply = await link.run(
      scripts.finishScript,
      [...names, ...ended.map(({ id }) => keys.prediction(id))],
      [this.#retentionMs, webhookLeaseMs, mode, ...args],
    );
    const [endedMs, ...endings] = listOf(reply);
    return {
      endedMs: numberOf(endedMs),
      endings: endings.map((ending) => {
        const [how, nodes] = listOf(ending);
        return { hasEnded: how !== 2, nodes: textOf(nodes) };
      }),
    };
  }

  async #claimed(entry: ClaimedEntry): Promise<Claimed> {
    const { body: _body, ...facts } = entry;
    const deadlineMs = performance.now() + entry.createdAtMs + entry.timeoutMs - (await this.nowMs());
    return { ...facts, deadlineMs, load: () => this.#load(entry) };
  }

  async #load({ bytes, body: found, ...facts }: ClaimedEntry): Promise<PredictionRequest | undefined> {
    let body = found;
    if (body.length === 0) {
      body = bodyOf(await this.#linkFor(bytes).fetch(bytes, "hget", this.keys.prediction(facts.id), "body"));
    }
    if (body.length > 0) return { ...facts, body };
    log.error(`Redis lost the request of prediction ${facts.id}: it fails`);
    return undefined;
  }

  /** The connection for a command. `bytes` is the size of the largest value in the command or its answer. */
  #linkFor(bytes: number): RedisLink {
    return bytes > LARGE_VALUE_BYTES ? this.#options.largeLink : this.link;
  }
}
