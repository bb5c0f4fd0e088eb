/** Stores predictions in a Redis queue that several servers share. */
import { until } from "../../base/until.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { newId } from "../ids.ts";
import type { PredictionMetrics } from "../metrics.ts";
import { type EndedRecord, hasEnded, type Kind, type PredictionRecord, recordOf } from "../record.ts";
import { type PredictionRequest, storedBody } from "../request.ts";
import type { Accepted, Claimed, Claimer, Full, SharedStore, Store, StoreOutage } from "../store.ts";
import { FollowedPrediction } from "./followed-prediction.ts";
import { Leases } from "./leases.ts";
import { type MessageKind, Queue } from "./queue.ts";
import { QueueState } from "./queue-state.ts";
import { QueuedWebhooks } from "./queued-webhooks.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { retry } from "./redis-link.ts";

/** The options of `serve` that the queue reads. */
interface QueueOptions {
  /** Seconds that a finished prediction stays readable. */
  readonly retainAge: number;
  readonly queueLease: number;
  readonly maxQueuedItems: number;
  readonly maxQueuedBytes: number;
}

export interface RedisStoreOptions {
  readonly config: QueueOptions;
  /** The address in `--queue`. */
  readonly url: string;
  /** Name of the queue. */
  readonly name: string;
  /** Repository of the model. */
  readonly repository: string;
  readonly memory: MemoryAccount;
  readonly metrics: PredictionMetrics;
}

/** When a prediction has waited for this many milliseconds, further servers load the model. */
const UNCLAIMED_MS = 1000;
/** Milliseconds for which the start waits for Redis. Then the server starts without it. */
const START_MS = 2000;

export class RedisStore implements Store, SharedStore {
  readonly webhooks: QueuedWebhooks;
  readonly shared: SharedStore = this;
  /** Redis evicts predictions by their time to live, and nobody counts them. */
  readonly retained = { count: 0, bytes: 0 };
  readonly #owned = new DisposableStack();
  readonly #queue: Queue;
  readonly #state: QueueState;
  readonly #leases: Leases;
  readonly #memory: MemoryAccount;
  readonly #followed = new Map<string, FollowedPrediction>();

  /** Connects to Redis, and retries forever. @throws SconceError `usage` for a malformed address */
  constructor({ config, url, name, repository, memory, metrics }: RedisStoreOptions) {
    const queue = this.#owned.use(
      new Queue({
        address: parseRedisAddress(url),
        onFault: (fault) => metrics.queueFailed(fault),
        onReady: () => {
          void this.#state.poll();
          void this.#leases.renewAll();
        },
        onMessage: (kind, value) => this.#received(kind, value),
        repository,
        name,
        node: newId("sconce:"),
        leaseMs: 1000 * config.queueLease,
        retentionMs: 1000 * config.retainAge,
        limits: config,
      }),
    );
    this.#memory = memory;
    this.#queue = queue;
    this.#leases = this.#owned.use(new Leases({ queue, memory, metrics }));
    const onPoll = () => this.#polled();
    this.#state = this.#owned.use(new QueueState(queue, () => this.#leases.isActive, onPoll));
    this.webhooks = this.#owned.use(new QueuedWebhooks(queue));
  }

  get outage(): StoreOutage | undefined {
    return this.#state.outage;
  }

  get facts(): SharedStore["facts"] {
    return this.#state.facts;
  }

  get waitMs(): number {
    return this.#state.waitMs;
  }

  async accept(request: PredictionRequest): Promise<Accepted | Full> {
    const body = storedBody(request);
    const created = await this.#queue.create({ ...request, body, bytes: body.length });
    if (!("limit" in created)) this.#followed.get(request.id)?.accepted();
    return created;
  }

  claim(claimer: Claimer): AsyncIterable<Claimed> {
    return this.#leases.claim(claimer);
  }

  processing(): void {}

  release(ids: readonly string[]): Promise<void> {
    return this.#leases.release(ids);
  }

  finish(record: EndedRecord): void {
    this.#leases.finish(record);
  }

  /** Resolves at once: the queue shows outcomes to clients, and gives webhooks to this process, after they are written. */
  written(): Promise<void> {
    return Promise.resolve();
  }

  read(id: string): Promise<PredictionRecord | undefined> {
    return this.#queue.read(id);
  }

  flush(): Promise<void> {
    return this.#leases.flush();
  }

  report(...[live]: Parameters<SharedStore["report"]>): void {
    this.#leases.report(live);
  }

  follow(id: string): FollowedPrediction {
    let followed = this.#followed.get(id);
    if (followed === undefined) {
      const onUnused = () => this.#followed.delete(id);
      followed = new FollowedPrediction(id, { queue: this.#queue, memory: this.#memory, onUnused });
      this.#followed.set(id, followed);
    }
    return followed.shared();
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = await this.read(id);
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) return record;
    await this.#queue.cancel(id);
    return this.read(id);
  }

  abandon(id: string, expiresMs: number): void {
    void retry(() => this.#queue.cancel(id), expiresMs);
  }

  ready(): Promise<void> {
    return until(() => this.outage !== "queue", START_MS);
  }

  async leave(maxMs: number): Promise<void> {
    this.#leases[Symbol.dispose]();
    // Removes this process from the workers.
    const polled = await this.#queue.poll(false).catch(() => undefined);
    const hasWorkers = polled !== undefined && polled.figures.workers > 0;
    await until(() => this.#followed.size === 0, hasWorkers ? maxMs : 0);
    for (const followed of this.#followed.values()) followed.release();
  }

  close(): Promise<void> {
    this.#owned[Symbol.dispose]();
    return Promise.resolve();
  }

  #polled(): void {
    for (const followed of this.#followed.values()) void followed.poll();
    const { waiting, workers, ageMs } = this.#state.facts;
    if (waiting > 0 && (workers === 0 || ageMs >= UNCLAIMED_MS)) this.#leases.claimer?.wanted();
  }

  #received(kind: MessageKind, value: string): void {
    if (kind === "lease") void this.#leases.renew(value);
    else if (kind === "events") void this.#followed.get(value)?.readEvents();
    else if (kind === "read") void this.#followed.get(value)?.poll(0);
    else {
      const record = recordOf(value);
      void this.#followed.get(record.id)?.ended(record);
    }
  }
}
