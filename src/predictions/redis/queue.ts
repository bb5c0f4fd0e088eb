/** The Redis queue that servers share. Most methods run one command or script. */
import { CallBatch } from "../../base/call-batch.ts";
import { log } from "../../base/log.ts";
import { LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import { CANCELED, type EndedRecord, type PredictionRecord, recordText } from "../record.ts";
import { type PredictionRequest, storedOrigin } from "../request.ts";
import type { Accepted, Claimed, Full, QueueFacts } from "../store.ts";
import { Keys } from "./keys.ts";
import type { EventPage, LeaseReport, LeaseState } from "./lease.ts";
import { type Argument, RedisLink, type RedisLinkOptions } from "./redis-link.ts";
import { entriesOf, entryOf, listOf, numberOf, RECORD_FIELDS, recordIn, type StreamEntry, textOf } from "./replies.ts";
import * as scripts from "./scripts.ts";

export interface QueueOptions extends Pick<RedisLinkOptions, "address" | "onFault"> {
  /** Called each time the connection for commands is open. */
  readonly onReady?: () => void;
  /** Called for a message to this node. A lost message only delays this node, which also polls. */
  readonly onMessage?: (kind: MessageKind, value: string) => void;
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
}

export interface QueuedRequest extends Omit<PredictionRequest, "createdAtMs" | "model"> {
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly bytes: number;
}

/** Figures of the queue, and the number of predictions that workers have ended since the queue was created. */
export type Figures = QueueFacts & { readonly ended: number };

/** An outcome, and its size in bytes. */
export interface QueuedOutcome {
  readonly record: EndedRecord;
  readonly bytes: number;
}

/** Maximum predictions in one call of a script, which stops all other commands of Redis meanwhile. */
export const MAX_COUNT = 256;
const MAX_CREATES = 16;
/** Predictions of a batch end together. */
const MAX_OUTCOMES = 64;
/**
 * Commands, scripts and notifications read entries and records whole, so a larger body or outcome is in another field of the
 * prediction's hash.
 */
const MAX_SMALL_BYTES = 65_536;
/** Limits of the retention time in milliseconds. Waiting clients read an outcome after its notification. */
const RETENTION_MS = { least: 10_000, most: 1e12 };
/** Minimum milliseconds of silence after which a worker counts as ended. A longer lease counts instead. */
const SILENT_MS = 5000;
/** Maximum pages of events in one answer, and their usual size at most. */
const MAX_PAGES = 16;
const PAGES_BYTES = 2 ** 22;

/**
 * Messages to a node, from scripts. `ended` has the record of an ended prediction, the others have an id.
 * - `read`: the prediction has ended. The node reads the record.
 * - `events`: the prediction has new events. The node reads the events.
 * - `lease`: another node has ended the prediction, which this node runs, or watches its events. The node renews its lease.
 */
const messageKinds = ["ended", "read", "events", "lease"] as const;
export type MessageKind = (typeof messageKinds)[number];

/** The facts of a request in an entry of the stream, beside its body. */
type RequestFacts = Omit<QueuedRequest, "body" | "isWatched" | "webhook">;

export class Queue implements Disposable {
  readonly node: string;
  readonly leaseMs: number;
  readonly keys: Keys;
  readonly link: RedisLink;
  /** Receives messages, and can send no other commands. */
  readonly #messages: RedisLink;
  readonly #links = new DisposableStack();
  readonly #options: QueueOptions;
  readonly #retentionMs: number;
  readonly #creates: CallBatch<QueuedRequest, Accepted | Full>;
  readonly #outcomes: CallBatch<QueuedOutcome, null>;
  readonly #reports: CallBatch<LeaseReport, LeaseState>;
  /** Redis' clock minus `performance.now()`, in milliseconds. Before the first answer, the clock of this machine counts. */
  #clockMs = Date.now() - performance.now();

  constructor(options: QueueOptions) {
    const { repository, name, node, leaseMs, retentionMs, onReady, onMessage } = options;
    this.#options = options;
    this.node = node;
    this.leaseMs = leaseMs;
    this.keys = new Keys(repository, name);
    this.#retentionMs = Math.min(RETENTION_MS.most, Math.max(RETENTION_MS.least, retentionMs));
    this.link = this.openLink({ onReady });
    this.#messages = this.openLink();
    this.#messages.subscribe(node, (message) => {
      const [text = ""] = message.split(" ", 1);
      const kind = messageKinds.find((each) => each === text);
      if (kind !== undefined) onMessage?.(kind, message.slice(text.length + 1));
    });
    this.#creates = new CallBatch(MAX_CREATES, (requests) => this.#createAll(requests));
    this.#outcomes = new CallBatch(MAX_OUTCOMES, (outcomes) => this.#end(outcomes, "worker"));
    this.#reports = new CallBatch(MAX_COUNT, (reports) => this.#renewAll(reports));
  }

  /** Opens a connection. */
  openLink(options: Pick<RedisLinkOptions, "isBlocking" | "onReady"> = {}): RedisLink {
    const { address, onFault } = this.#options;
    return this.#links.use(new RedisLink({ address, onFault, ...options }));
  }

  /** The time in milliseconds by Redis' clock. */
  get nowMs(): number {
    return this.#clockMs + performance.now();
  }

  [Symbol.dispose](): void {
    this.#links[Symbol.dispose]();
  }

  /** Adds a prediction to the queue. Every method may throw SconceError `queue_unavailable`. */
  create(request: QueuedRequest): Promise<Accepted | Full> {
    return this.#creates.ask(request);
  }

  /** Reads a prediction of any queue of the repository; undefined for an unknown id. */
  async read(id: string): Promise<PredictionRecord | undefined> {
    const key = this.keys.prediction(id);
    const reply = await this.link.call("hmget", key, ...RECORD_FIELDS, "large");
    const bytes = numberOf(listOf(reply).at(-1));
    const record = recordIn(reply);
    if (bytes === 0 || record?.outcome === undefined) return record;
    const members = textOf(await this.link.fetch(bytes, "hget", key, "members"));
    return { ...record, outcome: { ...record.outcome, members } };
  }

  /** Lets nodes notify this one of the end of a prediction of any queue, and of its events if `isWatching`. */
  async follow(id: string, isWatching: boolean): Promise<void> {
    await this.link.run(scripts.followScript, [this.keys.prediction(id)], [this.node, isWatching ? 1 : ""]);
  }

  /**
   * Reads pages of events of a running prediction.
   * @param after id of the last page of the earlier read, or "-" to read from the start
   * @returns the pages with their ids, and whether there may be more
   */
  async readEvents(id: string, after: string): Promise<{ pages: (EventPage & { id: string })[]; isMore: boolean }> {
    const from = after === "-" ? after : `(${after}`;
    const reply = await this.link.fetch(PAGES_BYTES, "xrange", this.keys.events(id), from, "+", "COUNT", MAX_PAGES);
    const pages = listOf(reply).map((each) => {
      const { id, fields } = entryOf(each);
      const page: EventPage = JSON.parse(fields[1] ?? "");
      return { ...page, id };
    });
    return { pages, isMore: pages.length === MAX_PAGES };
  }

  /** Cancels a prediction of any queue of the repository, unless it has ended. The node that runs it is notified. */
  cancel(id: string): Promise<void> {
    return this.#fail(id, () => CANCELED);
  }

  /** Ends a prediction of any queue of the repository whose time limit has passed. */
  endLate(id: string): Promise<void> {
    return this.#fail(id, ({ createdAtMs }, deadlineMs) => {
      const seconds = Math.round((deadlineMs - createdAtMs) / 10) / 100;
      return `Timed out after ${seconds} s`;
    });
  }

  /** Claims new predictions. Waits up to `blockMs` milliseconds if there are none. */
  async claim(link: RedisLink, count: number, blockMs: number): Promise<Claimed[]> {
    const options = ["GROUP", "workers", this.node, "COUNT", count, "BLOCK", blockMs, "STREAMS", this.keys.work(), ">"];
    const entries = entriesOf(await link.call("xreadgroup", ...options));
    return Promise.all(entries.map((entry) => this.#claimed(entry, 1)));
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
      return Promise.all(listOf(reply).map((found) => this.#claimed(entryOf(found), deliveries)));
    });
    return (await Promise.all(claims)).flat();
  }

  /** Stores an outcome of this worker, and notifies the waiting nodes. */
  async finish(outcome: QueuedOutcome): Promise<void> {
    const startedAtMs = this.#onClock(outcome.record.startedAtMs);
    await this.#outcomes.ask({ ...outcome, record: { ...outcome.record, startedAtMs } });
  }

  /** Renews the lease of a prediction, and stores its progress. */
  renew(report: LeaseReport): Promise<LeaseState> {
    return this.#reports.ask(report);
  }

  /** Returns claimed predictions to the queue. The claim does not count as a death. */
  async giveBack(ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += MAX_COUNT) {
      const names = ids.slice(i, i + MAX_COUNT).map((id) => this.keys.prediction(id));
      await this.link.run(scripts.giveBackScript, [this.keys.work(), ...names], [this.node]);
    }
  }

  /**
   * Reads the figures of the queue, and keeps its keys.
   * @param isWorker whether this node claims predictions
   * @returns also whether Redis is full, and predictions of any replica whose time limit has passed
   */
  async poll(isWorker: boolean): Promise<{ figures: Figures; isFull: boolean; late: readonly string[] }> {
    const { keys, node, leaseMs } = this;
    // Without commands, a dead connection would be silent.
    this.#messages.call("ping").catch(() => {});
    const reply = await this.link.run(
      scripts.pollScript,
      [keys.work(), keys.totals(), keys.deadlines],
      [node, isWorker ? 1 : "", Math.max(SILENT_MS, leaseMs)],
    );
    const [nowMs = 0, isFull = 0, items = 0, ended = 0, waiting = 0, taken = 0, ageMs = 0, workers = 0] =
      listOf(reply).map(numberOf);
    this.#clockMs = nowMs - performance.now();
    const figures = { items, ended, waiting, taken, ageMs, workers };
    return { figures, isFull: isFull === 1, late: listOf(reply).slice(8).map(textOf) };
  }

  async #createAll(requests: readonly QueuedRequest[]): Promise<(Accepted | Full)[]> {
    const { limits, name } = this.#options;
    const { keys } = this;
    const args: Argument[] = [limits.maxQueuedItems, limits.maxQueuedBytes, name];
    for (const request of requests) {
      const { id, kind, count, bytes, timeoutMs, digest, isWaitedFor = false, isWatched, webhook, origin } = request;
      const facts = { id, kind, count, bytes, timeoutMs, digest, isWaitedFor, origin: storedOrigin(origin) };
      const { body: whole } = request;
      const body = typeof whole === "string" ? whole : Buffer.from(whole.buffer, whole.byteOffset, whole.length);
      const isSmall = body.length <= MAX_SMALL_BYTES;
      const fields: Argument[] = ["kind", kind, "fronts", isWaitedFor ? this.node : ""];
      if (digest !== undefined) fields.push("digest", digest);
      if (isWatched) fields.push("watched", 1);
      if (webhook !== undefined) fields.push("webhook", JSON.stringify(webhook));
      if (!isSmall) fields.push("body", body);
      args.push(id, count, bytes, Math.ceil(timeoutMs), JSON.stringify(facts satisfies RequestFacts));
      args.push(isSmall ? body : "", fields.length, ...fields);
    }
    const names = [keys.work(), keys.totals(), keys.deadlines, ...requests.map(({ id }) => keys.prediction(id))];
    const [items, createdAtMs, ...limitsMet] = listOf(await this.link.run(scripts.acceptScript, names, args));
    return limitsMet.map(textOf).map((limit) => {
      if (limit === "") return { createdAtMs: numberOf(createdAtMs) };
      return { limit: limit === "bytes" ? "bytes" : "queue", items: numberOf(items) };
    });
  }

  async #renewAll(reports: readonly LeaseReport[]): Promise<LeaseState[]> {
    const args = reports.flatMap(({ progress }) => {
      if (progress === undefined) return [0];
      const { startedAtMs, logs, page } = progress;
      const events = page === undefined ? "" : JSON.stringify(page);
      const more = [this.#onClock(startedAtMs) ?? "", events, ...(logs === undefined ? [] : [logs])];
      return [more.length, ...more];
    });
    const names = reports.flatMap(({ id }) => [this.keys.prediction(id), this.keys.events(id)]);
    const states = listOf(await this.link.run(scripts.renewScript, [this.keys.work(), ...names], [this.node, ...args]));
    return states.map((state) => (state === 0 ? "lost" : state === 1 ? "unwatched" : "watched"));
  }

  /**
   * Ends a prediction of any queue of the repository as failed.
   * @param messageOf returns the error message
   */
  async #fail(id: string, messageOf: (record: PredictionRecord, deadlineMs: number) => string): Promise<void> {
    const { keys, link } = this;
    const reply = await link.call("hmget", keys.prediction(id), ...RECORD_FIELDS, "queue", "deadline");
    const [queue, deadlineMs] = listOf(reply).slice(-2).map(textOf);
    const record = recordIn(reply);
    if (!queue || record === undefined) {
      // The prediction has ended, or its keys were deleted.
      await link.call("zrem", keys.deadlines, id);
      return;
    }
    const members = `"error_message":${JSON.stringify(messageOf(record, Number(deadlineMs)))}`;
    const outcome = { status: "failed", members } as const;
    await this.#end([{ record: { ...record, finishedAtMs: 0, outcome }, bytes: 0 }], "any", queue);
  }

  /** Stores outcomes, and notifies the waiting nodes, and the worker whose prediction another node ends. @param who the node that stores them */
  async #end(outcomes: readonly QueuedOutcome[], who: "worker" | "any", queue?: string): Promise<readonly null[]> {
    const { keys } = this;
    const finishedAtMs = Math.floor(this.nowMs);
    const args = outcomes.flatMap(({ record, bytes }) => {
      const isSmall = bytes <= MAX_SMALL_BYTES;
      const members = String(record.outcome.members);
      const text = recordText({ ...record, finishedAtMs }, isSmall ? members : "");
      const fields = ["ended", text, ...(isSmall ? [] : ["large", bytes, "members", members])];
      return [fields.length, ...fields];
    });
    const names = [keys.work(queue), keys.totals(queue), keys.deadlines, keys.due];
    await this.link.run(
      scripts.finishScript,
      [...names, ...outcomes.map(({ record }) => keys.prediction(record.id))],
      [this.#retentionMs, who, ...args],
    );
    return outcomes.map(() => null);
  }

  /** @param deliveries number of claims of the entry, the present claim included */
  async #claimed({ fields }: StreamEntry, deliveries: number): Promise<Claimed> {
    const [, request = "", , createdAt, , deaths, , body = ""] = fields;
    const facts: RequestFacts = JSON.parse(request);
    const createdAtMs = Number(createdAt);
    const deadlineMs = performance.now() + createdAtMs + facts.timeoutMs - this.nowMs;
    const claimed = { ...facts, createdAtMs, deaths: Number(deaths) + deliveries - 1 };
    const load = async () => {
      const found = body || (await this.#bodyOf(claimed));
      return found.length > 0 ? { ...claimed, body: found } : undefined;
    };
    return { ...claimed, deadlineMs, load };
  }

  async #bodyOf({ id, bytes }: Pick<QueuedRequest, "id" | "bytes">): Promise<string | Uint8Array<ArrayBuffer>> {
    const body = await this.link.fetch(bytes, "hget", this.keys.prediction(id), "body");
    if (body === null) log.error(`Redis lost the request of prediction ${id}: it fails`);
    // Copies a large body, because other answers share its buffer and the body is transferred to a thread.
    return body instanceof Uint8Array && body.length > LARGE_BYTES ? new Uint8Array(body) : textOf(body);
  }

  /** A time of this machine's clock, by Redis' clock. */
  #onClock(ms: number | undefined): number | undefined {
    return ms && Math.floor(ms + this.nowMs - Date.now());
  }
}
