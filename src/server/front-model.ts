/** A model in a front: its code, its predictions and their store, its connection to the engine. */
import type { Model } from "../author/define.ts";
import { paramsOf } from "../author/params.ts";
import { messageOf, type SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { loadPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineLink } from "./engine-link.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import { Hooks } from "./flow/hooks.ts";
import type { ItemFlow } from "./flow/item-flow.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";
import { type RunningModel, tearDown } from "./flow/set-up.ts";
import { maxInputsOf, openService } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import { familyOf, recordJson } from "./http/record-json.ts";
import { Lifecycle } from "./http/routes/health.ts";
import { Bodies } from "./inputs/bodies.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import type { MemoryAccount } from "./memory/memory-account.ts";
import type { RelativesNews } from "./messages.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ModelVersion } from "./predictions/model-version.ts";
import type { Predictions } from "./predictions/predictions.ts";
import type { PredictionRecord } from "./predictions/record.ts";
import type { PredictionService } from "./predictions/service.ts";
import type { PredictionStore, RequestSource } from "./predictions/store.ts";
import type { Replica } from "./queue/replica.ts";
import { fileCapsOf } from "./serve-limits.ts";
import { openWebhooks, type Webhooks } from "./webhooks/webhooks.ts";

/** Tools of a front for the function that opens an engine. */
export interface FrontTools {
  readonly model: Model;
  readonly fetcher: Fetcher;
  readonly fileCaps: FileCaps;
  readonly metrics: Metrics;
  readonly hooks: Hooks;
}

export interface FrontModelOptions {
  /** Name in paths and metrics. */
  readonly name: string;
  /** The tag of the reference that the server was given. Paths may name it after the name. */
  readonly tag: string;
  readonly packaged: PackagedModel;
  /** Options of this model: the options of the server, overridden by the options of the model. */
  readonly config: ServeConfig;
  /** Counters of this model, shared by all fronts of the server. Default: the counters of the front. */
  readonly metrics?: Metrics;
  /** The engine process of the model; undefined without one. */
  readonly engine?: EngineLink | undefined;
  /** Opens the engine, after the port. Undefined for a replica that runs no predictions. */
  readonly run: ((tools: FrontTools) => Promise<RunningModel>) | undefined;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
}

interface ModelParts {
  readonly metrics: Metrics;
  readonly model: Model;
  readonly hooks: Hooks;
  readonly store: PredictionStore;
  readonly decoder: InputDecoder;
  readonly webhooks: Webhooks | undefined;
  readonly replica: Replica | undefined;
  readonly queued: Predictions | undefined;
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly service: PredictionService | undefined;
  readonly refusals: Refusals;
}

export class FrontModel implements ModelParts {
  readonly shared: FrontShared;
  readonly lifecycle: Lifecycle;
  readonly options: FrontModelOptions;
  readonly metrics: Metrics;
  readonly model: Model;
  readonly hooks: Hooks;
  readonly store: PredictionStore;
  readonly decoder: InputDecoder;
  readonly webhooks: Webhooks | undefined;
  /** This process as a replica; undefined without `--queue`. */
  readonly replica: Replica | undefined;
  /** The predictions of the queue, for the routes. Undefined without `--queue`, and with `--role worker`. */
  readonly queued: Predictions | undefined;
  /** The engine and the service that runs predictions; undefined for a replica that runs none. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly service: PredictionService | undefined;
  readonly refusals: Refusals;
  #relatives: RelativesNews = noRelatives;

  private constructor(shared: FrontShared, options: FrontModelOptions, parts: ModelParts) {
    this.shared = shared;
    // A server with a single model has the same state as the model.
    this.lifecycle = shared.options.models.length === 1 ? shared.lifecycle : new Lifecycle(shared.lifecycle);
    this.options = options;
    this.metrics = parts.metrics;
    this.model = parts.model;
    this.hooks = parts.hooks;
    this.store = parts.store;
    this.decoder = parts.decoder;
    this.webhooks = parts.webhooks;
    this.replica = parts.replica;
    this.queued = parts.queued;
    this.running = parts.running;
    this.flow = parts.flow;
    this.service = parts.service;
    this.refusals = parts.refusals;
  }

  /**
   * @param opened closes the parts when it is disposed
   * @throws SconceError `predictions_unusable`, or an error of the model's set-up
   */
  static async open(
    shared: FrontShared,
    options: FrontModelOptions,
    opened: AsyncDisposableStack,
  ): Promise<FrontModel> {
    const { packaged, config, run, openStore, metrics = shared.metrics } = options;
    const { memory, keys, fetcher, lag, tracing } = shared;
    const { owner, unfinished, others, runningHooks } = shared.options;
    const replica = opened.use(await replicaOf(options, { memory, metrics }));
    const store = replica?.claims ?? opened.adopt(await openStore(memory), (it) => it.close());
    const model = await loadPackaged(packaged);
    model.shared.params = paramsOf(model.params, config.param);
    const hooks = new Hooks({ limitMs: config.hookTimeout * 1000, lag, running: runningHooks });
    if (run !== undefined) opened.defer(() => tearDown(model));
    const running = await run?.({ model, fetcher, fileCaps: fileCapsOf(config), metrics, hooks });
    opened.defer(() => running?.engine.close());
    const decoder = new InputDecoder(model.input);
    const bodies = opened.use(new Bodies(decoder, new LargeBodies(packaged.bundle, decoder, { memory })));
    const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
    const webhooks = openWebhooks(config, { store, metrics, memory, json });
    opened.defer(() => webhooks?.stop());
    const version = ModelVersion.of(packaged.byDigest);
    const refusals = new Refusals(version, config.takeOver);
    const { flow, service } =
      running === undefined
        ? {}
        : openService({
            config,
            model,
            running,
            unfinished,
            others,
            hasOthers: shared.options.models.length > 1,
            bodies,
            store,
            metrics,
            memory,
            owner,
            version,
            unavailable: () => engineRefusal(options.engine),
            refusalOf: (accepted) => refusals.of(accepted),
            webhooks,
            isCauseKnown: runningHooks?.isKnown ?? false,
            keys,
            tracing,
          });
    if (options.engine !== undefined) {
      options.engine.predictionsIdleMs = () => service?.live.idleMs ?? 0;
      options.engine.onFailed = (reason) => service?.live.failAll(`the model could not be loaded: ${reason}`);
    }
    const answersClients = config.role !== "worker";
    const queued = answersClients
      ? replica?.front({ bodies, maxInputs: maxInputsOf(model, config), webhooks })
      : undefined;
    if (webhooks !== undefined) replica?.deliver(webhooks);
    const parts = {
      metrics,
      model,
      hooks,
      store,
      decoder,
      webhooks,
      replica,
      queued,
      running,
      flow,
      service,
      refusals,
    };
    return new FrontModel(shared, options, parts);
  }

  /** Resumes predictions of an earlier process, and claims predictions of the queue. */
  async start(): Promise<void> {
    const { service, running, replica, shared } = this;
    const { relatives = noRelatives, onlyBuild } = shared.options;
    this.#follow(relatives);
    const isTaken = ({ model, isOwnServer }: RequestSource) =>
      onlyBuild === undefined
        ? isFree(relatives, model) && (isOwnServer || !hasServer(relatives))
        : model?.reference === onlyBuild;
    await this.#resume(isTaken);
    if (service !== undefined && running !== undefined) replica?.work(service, running.engine);
    await replica?.ready();
  }

  /** The predictions for the routes; undefined for a worker. */
  get predictions(): Predictions | undefined {
    return this.replica === undefined ? this.service : this.queued;
  }

  /** Whether this front runs a prediction, or its store has the outcome. */
  has(id: string): Promise<boolean> {
    // The replicas of a queue know all predictions.
    return this.service === undefined || this.replica !== undefined ? Promise.resolve(true) : this.service.has(id);
  }

  /** Takes over the predictions of relatives that are no longer there. */
  async changeRelatives(next: RelativesNews): Promise<void> {
    const before = this.#relatives;
    this.#follow(next);
    const isLeft = (reference: string | undefined) =>
      before.relatives.some(({ build }) => build !== undefined && build === reference);
    if (hasServer(next)) return;
    await this.#resume(({ model, isOwnServer }) => isFree(next, model) && (!isOwnServer || isLeft(model?.reference)));
  }

  #follow(next: RelativesNews): void {
    this.#relatives = next;
    this.refusals.unavailable = next.unavailable;
  }

  async #resume(isTaken: (source: RequestSource) => boolean): Promise<void> {
    const { service, refusals, shared } = this;
    const isPartly = shared.options.onlyBuild !== undefined || hasServer(this.#relatives);
    const resumed = (await service?.resume({ isOwn: shared.options.isOwn ?? (() => true), isTaken, isPartly })) ?? 0;
    const { count } = refusals;
    refusals.count = 0;
    if (resumed > count) log.info(`Resuming ${resumed - count} accepted predictions`);
    if (count > 0)
      log.warn(`${count} predictions that another build accepted have failed; --take-over would run them on this one`);
  }

  /**
   * Finishes accepted predictions. Then clients have the linger time to read their results, and receivers to take their webhooks.
   * @returns the end of the linger time
   */
  async drain(): Promise<number> {
    const { running, replica, service, webhooks, options, store } = this;
    const { drainTimeout, linger } = options.config;
    const lingerMs = 1000 * linger;
    running?.engine.hurry();
    if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
    else if (service !== undefined) await drainService(service, drainTimeout);
    // Relatives look in the store as soon as this process does not answer.
    await store.flush().catch((error: unknown) => log.warn(messageOf(error)));
    const lingersUntilMs = performance.now() + lingerMs;
    if (replica !== undefined) await replica.releaseWebhooks(lingerMs);
    else await Promise.all([service?.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
    return lingersUntilMs;
  }
}

/** After a failed load, a request is refused, and asks for another try. */
function engineRefusal(engine: EngineLink | undefined): SconceError | undefined {
  if (engine?.state !== "failed") return undefined;
  engine.need();
  return engine.refusal;
}

const noRelatives: RelativesNews = { relatives: [], unavailable: {} };

/** Whether the other server of an upgrade is there. It runs all predictions that it has accepted. */
function hasServer({ relatives }: RelativesNews): boolean {
  return relatives.some(({ build }) => build === undefined);
}

/** Whether no relative finishes the predictions of this build. */
function isFree({ relatives }: RelativesNews, model: ModelVersion | undefined): boolean {
  return !relatives.some(({ build }) => build !== undefined && build === model?.reference);
}

/** Decides which predictions of other builds fail. */
class Refusals {
  readonly #version: ModelVersion | undefined;
  readonly #takesOver: boolean;
  /** Why builds do not run; follows the name of the build. */
  unavailable: Readonly<Record<string, string>> = {};
  count = 0;

  constructor(version: ModelVersion | undefined, takesOver: boolean) {
    this.#version = version;
    this.#takesOver = takesOver;
  }

  /** @returns undefined if this build runs the prediction */
  of(accepted: ModelVersion): string | undefined {
    if (accepted === this.#version || this.#takesOver) return undefined;
    this.count += 1;
    const reason = this.unavailable[accepted.reference] ?? "does not run here";
    return `This was accepted by ${accepted.name}, which ${reason}. ${this.#version?.name ?? "Another build"} has not run it`;
  }
}

/** Ends all predictions, within the time limit. */
async function drainService(service: PredictionService, drainTimeout: number | undefined): Promise<void> {
  await Promise.race([service.live.drain(), ...(drainTimeout === undefined ? [] : [Bun.sleep(1000 * drainTimeout)])]);
  const { predictions } = service.live.unfinished;
  if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
  service.live.abandon();
}

async function replicaOf(
  { config, packaged }: FrontModelOptions,
  parts: { readonly memory: MemoryAccount; readonly metrics: Metrics },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = `${packaged.repository}@${packaged.digest}` } = config;
  if (url === undefined) return undefined;
  // Loading the Redis client takes a tenth of a server's start, so only replicas load it.
  const { Replica } = await import("./queue/replica.ts");
  return new Replica({ ...parts, config, url, name, repository: packaged.repository });
}
