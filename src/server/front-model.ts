/**
 * A model in a front: its current build, and the parts that outlive a build. Resumes unfinished predictions at a
 * start, and finishes predictions at a stop.
 */
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { until } from "../base/until.ts";
import { familyOf, recordJson } from "../http/record-json.ts";
import { frontOf, ownerOf } from "../predictions/ids.ts";
import { openStore } from "../predictions/open-store.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import type { RequestSource, Store } from "../predictions/store.ts";
import { openWebhooks, type Webhooks } from "../predictions/webhooks/webhooks.ts";
import { openPredictions } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { type Build, openBuild } from "./open-build.ts";
import type { ServedBuild } from "./served-build.ts";

/** The parts of a model in this process that all its builds use. */
export interface ModelParts {
  readonly metrics: Metrics;
  readonly store: Store;
  readonly webhooks: Webhooks | undefined;
  readonly predictions: Predictions;
}

export class FrontModel implements AsyncDisposable {
  readonly shared: FrontShared;
  readonly parts: ModelParts;
  /** The build that answers requests. */
  build: Build;
  /** A build that a reload has opened, and that answers no requests yet. */
  #next: Build | undefined;
  /** Resolves when the build before the current one has ended its predictions, and is closed. */
  earlierEnded: Promise<void> = Promise.resolve();
  readonly #resources: AsyncDisposableStack;

  private constructor(shared: FrontShared, build: Build, parts: ModelParts, resources: AsyncDisposableStack) {
    this.shared = shared;
    this.build = build;
    this.parts = parts;
    this.#resources = resources;
    this.#follow();
  }

  /** @throws SconceError `predictions_unusable`, or an error of the model's set-up */
  static async open(shared: FrontShared, served: ServedBuild): Promise<FrontModel> {
    await using resources = new AsyncDisposableStack();
    const build = resources.use(await openBuild(shared, served));
    let front: FrontModel | undefined;
    await using own = new AsyncDisposableStack();
    const parts = await openModelParts(shared, build, () => front?.served ?? served, own);
    // The build closes before the store, since it may still end predictions.
    resources.move();
    front = new FrontModel(shared, build, parts, own.move());
    return front;
  }

  get served(): ServedBuild {
    return this.build.served;
  }

  /**
   * Continues predictions of an earlier process, and begins to take predictions from the queue in Redis.
   * @param hasClaim whether no other server runs the predictions of the store; false with --take-over
   */
  async start(hasClaim: boolean): Promise<void> {
    await this.#resume(({ isOwnServer }) => hasClaim || isOwnServer, !hasClaim);
    await this.parts.store.shared?.ready();
  }

  /** Runs the unfinished predictions of the server that had the port before, and has ended. */
  claim(): Promise<void> {
    return this.#resume(({ isOwnServer }) => !isOwnServer, false);
  }

  /** The predictions for the routes; undefined with --role worker. */
  get predictions(): Predictions | undefined {
    return this.served.config.role === "worker" ? undefined : this.parts.predictions;
  }

  /** Opens a build beside the current one. @throws SconceError an error of its set-up */
  async openNext(served: ServedBuild): Promise<void> {
    await this.closeNext();
    this.#next = await openBuild(this.shared, served);
  }

  async closeNext(): Promise<void> {
    const next = this.#next;
    this.#next = undefined;
    await next?.[Symbol.asyncDispose]();
  }

  /** Gives new predictions to the opened build. The earlier build ends its predictions, and is closed. */
  switchToNext(): void {
    const [earlier, next] = [this.build, this.#next];
    // A process that has started since then has opened the new build alone.
    if (next === undefined) return;
    this.#next = undefined;
    this.build = next;
    this.#follow();
    this.earlierEnded = this.parts.predictions.switchTo(next.runs).then(() => earlier[Symbol.asyncDispose]());
    this.earlierEnded.catch((error: unknown) => log.error(error));
  }

  /** Connects the engine's state with the predictions. */
  #follow(): void {
    const { served, parts } = this;
    const { live } = parts.predictions;
    served.predictionsIdleMs = () => live.idleMs;
    served.onFailed = (reason) => live.failAll(`the model could not be loaded: ${reason}`);
  }

  async #resume(isTaken: (source: RequestSource) => boolean, isPartly: boolean): Promise<void> {
    const { index, count } = this.shared.start;
    const isOwn = (owner: string) => frontOf(owner, count) === index;
    const resumed = await this.parts.predictions.resume({ isOwn, isTaken, isPartly });
    if (resumed > 0) log.info(`Resuming ${resumed} accepted predictions`);
  }

  /**
   * Finishes accepted predictions. Then waits a few seconds (`linger`) until clients have read results and receivers
   * have webhooks.
   * @returns latest end of this wait, in `performance.now()` milliseconds
   */
  async drain(): Promise<number> {
    const { predictions, webhooks, store } = this.parts;
    const { drainTimeout, linger } = this.served.config;
    // Without a queue, only this server can answer for its predictions.
    const lingerMs = store.shared === undefined ? 1000 * linger : 0;
    await predictions.drain(1000 * (drainTimeout ?? Infinity));
    const lingersUntilMs = performance.now() + lingerMs;
    await Promise.all([until(() => predictions.live.unread.size === 0, lingerMs), webhooks?.settled(lingerMs)]);
    await webhooks?.release();
    return lingersUntilMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.closeNext();
    await this.build[Symbol.asyncDispose]();
    await this.#resources.disposeAsync();
  }
}

/**
 * Opens the parts of a model that outlive a build.
 * @param current the current build
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `predictions_unusable`
 */
async function openModelParts(
  shared: FrontShared,
  { served, runs }: Build,
  current: () => ServedBuild,
  opened: AsyncDisposableStack,
): Promise<ModelParts> {
  const { config, record } = served;
  const { memory, keys, tracing, unfinished, others } = shared;
  const { count, index, isCauseKnown } = shared.start;
  const metrics = shared.metricsOf(record.counts);
  const store = opened.adopt(await storeOf(shared, served, metrics), (it) => it.close());
  const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
  const webhooks = openWebhooks(config, { store, metrics, memory, json });
  opened.defer(() => webhooks?.stop());
  const predictions = openPredictions({
    config,
    build: runs,
    unfinished,
    others,
    hasOthers: shared.isSeveral,
    store,
    metrics,
    memory,
    owner: ownerOf(index),
    unavailable: () => current().refuse(),
    fronts: count,
    load: () => current().need(),
    webhooks,
    isCauseKnown,
    keys,
    tracing,
  });
  return { metrics, store, webhooks, predictions };
}

async function storeOf(
  { memory, start: { server } }: FrontShared,
  { config, record, version }: ServedBuild,
  metrics: Metrics,
): Promise<Store> {
  const { queue: url, queueName: name = version.reference } = config;
  if (record.storeFault !== undefined) throw new SconceError("predictions_unusable", record.storeFault);
  if (url === undefined) return openStore(record.store, config, "member", { memory, server });
  // Loading the Redis client takes a tenth of a server's start, so only servers with --queue load it.
  const { RedisStore } = await import("../predictions/redis/redis-store.ts");
  return new RedisStore({ config, url, name, repository: version.repository, memory, metrics });
}
