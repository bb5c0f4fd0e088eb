/** This server as a replica: its connections to the Redis queue, the interface for clients, and the worker that runs predictions. */

import type { Engine } from "../../engine/engine.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { newId } from "../ids.ts";
import type { PredictionMetrics } from "../metrics.ts";
import type { QueueOptions } from "../options.ts";
import type { PredictionService } from "../service.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import { ClaimedPredictions } from "./claimed-predictions.ts";
import { Mailbox } from "./mailbox.ts";
import { Queue } from "./queue.ts";
import { QueueDirectory } from "./queue-directory.ts";
import type { QueueFacts } from "./queue-messages.ts";
import { QueueState } from "./queue-state.ts";
import { QueueWorker } from "./queue-worker.ts";
import { QueuedPredictions, type QueuedPredictionsOptions } from "./queued-predictions.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { RedisLink, type RedisLinkOptions } from "./redis-link.ts";

export interface ReplicaOptions {
  readonly config: QueueOptions;
  /** The address in `--queue`. */
  readonly url: string;
  /** Name of the queue. */
  readonly name: string;
  /** Repository of the model. */
  readonly repository: string;
  /** Number of fronts of this server. */
  readonly fronts: number;
  readonly memory: MemoryAccount;
  readonly metrics: PredictionMetrics;
}

/** Milliseconds between polls for webhooks that no replica has leased. */
const WEBHOOK_POLL_MS = 1000;
/** When a prediction has waited for this many milliseconds, further replicas load the model. */
const UNCLAIMED_MS = 1000;
/** Milliseconds for which the start waits for Redis. Then the server starts without it. */
const START_MS = 2000;

export class Replica implements Disposable {
  /** Predictions that this replica has claimed from the queue. */
  readonly claims: ClaimedPredictions;
  readonly #options: ReplicaOptions;
  readonly #links = new DisposableStack();
  readonly #linkOptions: Omit<RedisLinkOptions, "use" | "onReady">;
  readonly #queue: Queue;
  readonly #directory: QueueDirectory;
  readonly #mailbox: Mailbox;
  readonly #state: QueueState;
  readonly #largeLinkReady = Promise.withResolvers<void>();
  readonly #connected = Promise.withResolvers<void>();
  #predictions: QueuedPredictions | undefined;
  #worker: QueueWorker | undefined;
  #webhooks: Webhooks | undefined;

  /** Connects to Redis, and retries forever. @throws SconceError `usage` for a malformed address */
  constructor(options: ReplicaOptions) {
    const { config, url, name, repository, memory, metrics } = options;
    this.#options = options;
    this.#linkOptions = { address: parseRedisAddress(url), onFault: (fault) => metrics.queueFailed(fault) };
    const link = this.#links.use(new RedisLink({ ...this.#linkOptions, onReady: () => this.#onReady() }));
    const onReady = this.#largeLinkReady.resolve;
    const largeLink = this.#links.use(new RedisLink({ ...this.#linkOptions, use: "large", onReady }));
    const queueOptions = {
      link,
      largeLink,
      node: newId(""),
      leaseMs: 1000 * config.queueLease,
      retentionMs: 1000 * config.retainAge,
      limits: config,
      deliversWebhooks: config.webhookSecret.length > 0,
    };
    this.#queue = new Queue({ ...queueOptions, repository, name });
    this.#directory = new QueueDirectory(this.#queue);
    this.#mailbox = new Mailbox({ queue: this.#queue, link: this.#blockingLink() });
    this.#state = new QueueState(this.#queue, this.#mailbox);
    this.claims = new ClaimedPredictions(this.#directory, memory);
  }

  get isConnected(): boolean {
    return this.#state.isConnected;
  }

  get facts(): QueueFacts {
    return this.#state.facts;
  }

  /** Number and bytes of retained predictions of all replicas. */
  get retained(): { readonly count: number; readonly bytes: number } {
    return { count: 0, bytes: 0 };
  }

  /** Creates the interface through which clients create and read predictions. */
  front(options: Pick<QueuedPredictionsOptions, "bodies" | "maxInputs" | "webhooks">): QueuedPredictions {
    const { config, memory, metrics } = this.#options;
    this.#predictions = new QueuedPredictions({
      ...options,
      queues: this.#directory,
      mailbox: this.#mailbox,
      state: this.#state,
      memory,
      metrics,
      timeoutMs: 1000 * config.timeout,
    });
    return this.#predictions;
  }

  /** Starts sending the webhooks of the queues of all versions of the model. */
  deliver(webhooks: Webhooks): void {
    this.#webhooks = webhooks;
    const intervalMs = Math.min(WEBHOOK_POLL_MS, this.#queue.leaseMs / 3);
    const timer = setInterval(() => void this.claims.webhooks.poll(webhooks), intervalMs);
    timer.unref();
    this.#links.defer(() => clearInterval(timer));
  }

  /**
   * Starts to run predictions of the queue.
   * @param load loads the model if it is not loaded. Called when no replica claims waiting predictions
   */
  work(service: PredictionService, engine: Engine, load: () => void = () => {}): void {
    const { memory, metrics, fronts } = this.#options;
    const worker = new QueueWorker({
      queue: this.#queue,
      link: this.#blockingLink(),
      mailbox: this.#mailbox,
      claims: this.claims,
      service,
      engine,
      fronts,
      memory,
      metrics,
    });
    this.#worker = worker;
    this.#state.isWorker = () => worker.isActive;
    this.#state.onTick(() => {
      const { waiting, workers, ageMs } = this.#state.facts;
      if (!worker.isStopping && waiting > 0 && (workers === 0 || ageMs >= UNCLAIMED_MS)) load();
    });
  }

  /** Resolves when Redis answers, or after two seconds. */
  async ready(): Promise<void> {
    await Promise.race([this.#connected.promise, Bun.sleep(START_MS)]);
  }

  /** Stops claiming predictions. Ends claimed ones or returns them to the queue, and answers waiting requests. */
  async drain(maxMs: number): Promise<void> {
    const beganMs = performance.now();
    const predictions = this.#predictions;
    predictions?.refuse();
    await this.#worker?.stop(maxMs);
    if (predictions === undefined) return;
    await this.#state.poll();
    const leftMs = this.#state.facts.workers > 0 && this.isConnected ? maxMs - (performance.now() - beganMs) : 0;
    await predictions.release(leftMs);
  }

  /** Sends webhooks for about `maxMs` milliseconds, then leaves the others to other replicas. */
  async releaseWebhooks(maxMs: number): Promise<void> {
    const webhooks = this.#webhooks;
    if (webhooks === undefined) return;
    await webhooks.settled(maxMs);
    const { predictions } = webhooks;
    webhooks.stop();
    await this.claims.webhooks.release(predictions);
  }

  [Symbol.dispose](): void {
    this.#mailbox.stop();
    this.#state.stop();
    this.#links[Symbol.dispose]();
  }

  #blockingLink(): RedisLink {
    return this.#links.use(new RedisLink({ ...this.#linkOptions, use: "blocking" }));
  }

  #onReady(): void {
    const all = [this.#state.poll(), this.#largeLinkReady.promise];
    void Promise.all(all).then(() => this.#connected.resolve());
    void this.#worker?.renew();
  }
}
