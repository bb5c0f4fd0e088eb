/** This process as one of the replicas that share a queue: its connections, and what it does of the work. */

import type { Engine } from "../../engine/engine.ts";
import type { ServeConfig } from "../config.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics, QueueGauges } from "../metrics/metrics.ts";
import { newId } from "../predictions/ids.ts";
import type { PredictionService } from "../predictions/service.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import { Bucket } from "./bucket.ts";
import { BucketValues } from "./bucket-values.ts";
import { LargeLink } from "./large-link.ts";
import { Mailbox } from "./mailbox.ts";
import { Queue } from "./queue.ts";
import { QueueDirectory } from "./queue-directory.ts";
import { QueueState } from "./queue-state.ts";
import { QueueWorker } from "./queue-worker.ts";
import { QueuedPredictions, type QueuedPredictionsOptions } from "./queued-predictions.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { RedisLink, type RedisLinkOptions } from "./redis-link.ts";
import { TakenWork } from "./taken-work.ts";

export interface ReplicaOptions {
  readonly config: ServeConfig;
  /** As `--queue` has it. */
  readonly url: string;
  /** Of the queue. */
  readonly name: string;
  /** Of the model. */
  readonly repository: string;
  readonly memory: MemoryAccount;
  readonly metrics: Metrics;
}

/** Of values in the bucket, and of the queue's name, beyond the time in which a prediction runs and can be read. */
const MARGIN_S = 600;
/** How often webhooks are looked for that nobody tells. */
const LOOK_MS = 1000;
/** How long a start waits for the queue. */
const START_MS = 2000;

export class Replica implements Disposable {
  /** Where a service keeps what this replica has of the queue. */
  readonly taken: TakenWork;
  /** Where what is large lies; undefined where that is Redis. */
  readonly bucket: BucketValues | undefined;
  readonly #options: ReplicaOptions;
  readonly #links = new DisposableStack();
  readonly #linkOptions: Omit<RedisLinkOptions, "use" | "onReady">;
  readonly #queue: Queue;
  readonly #directory: QueueDirectory;
  readonly #mailbox: Mailbox;
  readonly #state: QueueState;
  readonly #isLargeReady = Promise.withResolvers<void>();
  readonly #found = Promise.withResolvers<void>();
  #predictions: QueuedPredictions | undefined;
  #worker: QueueWorker | undefined;
  #webhooks: Webhooks | undefined;

  /** @throws SconceError `usage` for an address that is none; one that nobody is at is tried again for ever */
  constructor(options: ReplicaOptions) {
    const { config, url, name, repository, memory, metrics } = options;
    const lifetimeS = config.timeout + config.retainAge + MARGIN_S;
    this.#options = options;
    this.#linkOptions = { address: parseRedisAddress(url), onFault: (fault) => metrics.queueFailed(fault) };
    const link = new RedisLink({ ...this.#linkOptions, onReady: () => this.#connected() });
    this.#links.use(link);
    const largeLink = new LargeLink({ ...this.#linkOptions, onReady: this.#isLargeReady.resolve });
    this.#links.use(largeLink);
    if (config.bucket !== undefined) {
      this.bucket = new BucketValues({
        bucket: new Bucket({ address: config.bucket, memory }),
        redis: link,
        // What replicas of earlier builds left in the bucket is deleted as well.
        key: `sconce:large:${config.bucket}`,
        lifetimeS,
      });
      this.#links.use(this.bucket);
    }
    const ofQueues = {
      link,
      largeLink,
      node: newId(""),
      leaseMs: 1000 * config.queueLease,
      retention: { ms: 1000 * config.retainAge, count: config.retainCount, bytes: config.retainBytes },
      timeoutMs: 1000 * config.timeout,
      limits: config,
      large: this.bucket,
      tells: config.webhookSecret.length > 0,
    };
    const open = (queue: string) => new Queue({ ...ofQueues, name: queue });
    this.#directory = new QueueDirectory({ link, repository, name, lifetimeS, open });
    this.#queue = this.#directory.own;
    this.#mailbox = new Mailbox({ queue: this.#queue, link: this.#blockingLink() });
    this.#state = new QueueState(this.#queue, this.#mailbox);
    this.taken = new TakenWork(this.#directory, memory);
  }

  /** Whether the queue answers. */
  get isConnected(): boolean {
    return this.#state.isConnected;
  }

  get gauges(): QueueGauges {
    return { ...this.#state.facts, isConnected: this.isConnected };
  }

  /** Ended predictions of all replicas that can be read. */
  get retained(): { readonly count: number; readonly bytes: number } {
    return { count: this.#state.facts.kept, bytes: this.#state.facts.keptBytes };
  }

  /** Answers clients. */
  front(options: Pick<QueuedPredictionsOptions, "bodies" | "maxInputs" | "webhooks">): QueuedPredictions {
    const { config, metrics } = this.#options;
    this.#predictions = new QueuedPredictions({
      ...options,
      queues: this.#directory,
      mailbox: this.#mailbox,
      state: this.#state,
      metrics,
      timeoutMs: 1000 * config.timeout,
    });
    return this.#predictions;
  }

  /** Tells webhooks what ended, wherever it did. */
  tell(webhooks: Webhooks): void {
    this.#webhooks = webhooks;
    const timer = setInterval(
      () => void this.taken.webhooks.look(webhooks),
      Math.min(LOOK_MS, this.#queue.leaseMs / 3),
    );
    timer.unref();
    this.#links.defer(() => clearInterval(timer));
  }

  /** Runs predictions, whichever replica accepted them. */
  work(service: PredictionService, engine: Engine): void {
    const { memory, metrics } = this.#options;
    const worker = new QueueWorker({
      queue: this.#queue,
      link: this.#blockingLink(),
      mailbox: this.#mailbox,
      taken: this.taken,
      service,
      engine,
      memory,
      metrics,
    });
    this.#worker = worker;
    this.#state.isWorker = () => worker.isThere;
  }

  /** Resolves when the queue is there; soon where it is not, as it may come at any time. */
  async ready(): Promise<void> {
    await Promise.race([this.#found.promise, Bun.sleep(START_MS)]);
  }

  /** Takes nothing new, ends or gives back what it has, and answers those that wait. */
  async drain(maxMs: number): Promise<void> {
    const beganMs = performance.now();
    const answered = this.#predictions?.drain();
    await this.#worker?.stop(maxMs);
    if (answered === undefined) return;
    await this.#state.look();
    const leftMs = this.#state.facts.workers > 0 && this.isConnected ? maxMs - (performance.now() - beganMs) : 0;
    await Promise.race([answered, ...(leftMs === Infinity ? [] : [Bun.sleep(Math.max(0, leftMs))])]);
    this.#predictions?.release();
  }

  /** Leaves to others what was not told after about `maxMs`. */
  async leaveWebhooks(maxMs: number): Promise<void> {
    const webhooks = this.#webhooks;
    if (webhooks === undefined) return;
    await webhooks.settled(maxMs);
    const { predictions } = webhooks;
    webhooks.stop();
    await this.taken.webhooks.release(predictions);
  }

  [Symbol.dispose](): void {
    this.#mailbox.stop();
    this.#state.stop();
    this.#links[Symbol.dispose]();
  }

  #blockingLink(): RedisLink {
    return this.#links.use(new RedisLink({ ...this.#linkOptions, use: "blocking" }));
  }

  #connected(): void {
    // Before an id is given out, the queue that it names can be found.
    const noted = this.#directory.refresh().catch(() => {});
    void Promise.all([noted, this.#state.look(), this.#isLargeReady.promise]).then(() => this.#found.resolve());
    void this.#worker?.renew();
  }
}
