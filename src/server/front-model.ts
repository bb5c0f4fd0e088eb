/** A model in a front: its code, its predictions and their store, its connection to the engine. */
import type { Model } from "../author/define.ts";
import { paramsOf } from "../author/params.ts";
import { log } from "../base/log.ts";
import { loadPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import { Hooks } from "./flow/hooks.ts";
import type { ItemFlow } from "./flow/item-flow.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";
import { type RunningModel, tearDown } from "./flow/set-up.ts";
import { maxInputsOf, openService } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import { familyOf, recordJson } from "./http/record-json.ts";
import { Bodies } from "./inputs/bodies.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import type { MemoryAccount } from "./memory/memory-account.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ModelVersion } from "./predictions/model-version.ts";
import type { Predictions } from "./predictions/predictions.ts";
import type { PredictionRecord } from "./predictions/record.ts";
import type { PredictionService } from "./predictions/service.ts";
import type { PredictionStore } from "./predictions/store.ts";
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
  readonly packaged: PackagedModel;
  /** The options of the server, with those of this model. */
  readonly config: ServeConfig;
  /** Counters of this model, which the fronts of a server share; by default those of the front. */
  readonly metrics?: Metrics;
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
}

export class FrontModel implements ModelParts {
  readonly shared: FrontShared;
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

  private constructor(shared: FrontShared, options: FrontModelOptions, parts: ModelParts) {
    this.shared = shared;
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
  }

  /**
   * @param opened closes the parts
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
    const { flow, service } =
      running === undefined
        ? {}
        : openService({
            config,
            model,
            running,
            unfinished,
            others,
            bodies,
            store,
            metrics,
            memory,
            owner,
            version: ModelVersion.of(packaged.byDigest),
            webhooks,
            isCauseKnown: runningHooks?.isKnown ?? false,
            keys,
            tracing,
          });
    const answersClients = config.role !== "worker";
    const queued = answersClients
      ? replica?.front({ bodies, maxInputs: maxInputsOf(model, config), webhooks })
      : undefined;
    if (webhooks !== undefined) replica?.deliver(webhooks);
    const parts = { metrics, model, hooks, store, decoder, webhooks, replica, queued, running, flow, service };
    return new FrontModel(shared, options, parts);
  }

  /** Resumes predictions of an earlier process, and claims predictions of the queue. */
  async start(): Promise<void> {
    const { service, running, replica, shared } = this;
    const resumed = (await service?.resume(shared.options.isOwn ?? (() => true))) ?? 0;
    if (resumed > 0) log.info(`Resuming ${resumed} accepted predictions`);
    if (service !== undefined && running !== undefined) replica?.work(service, running.engine);
    await replica?.ready();
  }

  /**
   * Finishes accepted predictions. Then clients have the linger time to read their results, and receivers to take their webhooks.
   * @returns the end of the linger time
   */
  async drain(): Promise<number> {
    const { running, replica, service, webhooks, options } = this;
    const { drainTimeout, linger } = options.config;
    const lingerMs = 1000 * linger;
    running?.engine.hurry();
    if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
    else if (service !== undefined) await drainService(service, drainTimeout);
    const lingersUntilMs = performance.now() + lingerMs;
    if (replica !== undefined) await replica.releaseWebhooks(lingerMs);
    else await Promise.all([service?.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
    return lingersUntilMs;
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
