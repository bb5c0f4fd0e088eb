/** Opens all parts of a model in an HTTP process: its code, its store, its engine and its predictions. */
import type { OpenedModel } from "../author/define.ts";
import type { SconceError } from "../base/errors.ts";
import { familyOf, recordJson } from "../http/record-json.ts";
import { openPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { Hooks } from "../pipeline/hooks.ts";
import { Bodies } from "../pipeline/inputs/bodies.ts";
import { InputDecoder } from "../pipeline/inputs/input-decoder.ts";
import { LargeBodies } from "../pipeline/inputs/large-bodies.ts";
import { ItemFlow } from "../pipeline/item-flow.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { type RunningModel, tearDown } from "../pipeline/set-up.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import type { Replica } from "../predictions/redis/replica.ts";
import { RunningBuild } from "../predictions/running-build.ts";
import type { PredictionService } from "../predictions/service.ts";
import type { PredictionStore } from "../predictions/store.ts";
import { openWebhooks, type Webhooks } from "../predictions/webhooks/webhooks.ts";
import type { EngineLink } from "./engine-link.ts";
import type { FrontModelOptions } from "./front-options.ts";
import { maxInputsOf, openService } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";

/** The parts of one build of a model. Another build of the same name can replace them. */
export interface Build {
  readonly options: FrontModelOptions;
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly hooks: Hooks;
  readonly decoder: InputDecoder;
  readonly bodies: Bodies;
  /** The engine; undefined, like `flow` and `runs`, with --role front, which runs no predictions. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly runs: RunningBuild | undefined;
}

/** The parts of a model in this process that all its builds use. */
export interface ModelParts {
  readonly metrics: Metrics;
  readonly store: PredictionStore;
  readonly webhooks: Webhooks | undefined;
  /** This server as a replica, which shares predictions in Redis; undefined without `--queue`. */
  readonly replica: Replica | undefined;
  /** The predictions in Redis, for the routes. Undefined without `--queue`, and with `--role worker`. */
  readonly queued: Predictions | undefined;
  readonly service: PredictionService | undefined;
}

/**
 * Opens a build: its code, its engine, and the way of its inputs.
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError an error of the model's code or set-up
 */
export async function openBuild(
  shared: FrontShared,
  options: FrontModelOptions,
  opened: AsyncDisposableStack,
): Promise<Build> {
  const { config, run, version, metrics = shared.metrics } = options;
  const { memory, fetcher, lag } = shared;
  const { hookCell: cell, guilty } = shared.options;
  const packaged = await options.resolve();
  const model = await openPackaged(packaged, config.param);
  const hooks = new Hooks({ lag, cell, guilty });
  if (run !== undefined) opened.defer(() => tearDown(model));
  const running = await run?.({ packaged, model, fetcher, metrics, hooks });
  opened.defer(() => running?.engine.close());
  const decoder = new InputDecoder(model.input);
  const bodies = opened.use(new Bodies(decoder, new LargeBodies(packaged.bundle, decoder, { memory })));
  const parts = { options, packaged, model, hooks, decoder, bodies };
  if (running === undefined) return { ...parts, running, flow: undefined, runs: undefined };
  const { engine, pipeline } = running;
  const flow = new ItemFlow(engine, pipeline, { ...config, memory, observer: metrics });
  const runs = new RunningBuild({ flow, pipeline, bodies, version, maxInputs: maxInputsOf(model, config) });
  return { ...parts, running, flow, runs };
}

/**
 * Opens the parts of a model that outlive a build.
 * @param engine the engine of the current build
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `predictions_unusable`
 */
export async function openModelParts(
  shared: FrontShared,
  { options, model, bodies, runs }: Build,
  engine: () => EngineLink | undefined,
  opened: AsyncDisposableStack,
): Promise<ModelParts> {
  const { config, openStore, metrics = shared.metrics } = options;
  const { memory, keys, tracing } = shared;
  const { owner, unfinished, others, isCauseKnown, siblings } = shared.options;
  const replica = opened.use(await replicaOf(options, { memory, metrics, fronts: siblings?.count ?? 1 }));
  const store = replica?.claims ?? opened.adopt(await openStore(memory), (it) => it.close());
  const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
  const webhooks = openWebhooks(config, { store, metrics, memory, json });
  opened.defer(() => webhooks?.stop());
  const service =
    runs &&
    openService({
      config,
      build: runs,
      unfinished,
      others,
      hasOthers: shared.options.models.length > 1,
      store,
      metrics,
      memory,
      owner,
      unavailable: () => engineRefusal(engine()),
      webhooks,
      isCauseKnown,
      keys,
      tracing,
    });
  const answersClients = config.role !== "worker";
  const queued = answersClients
    ? replica?.front({ bodies, maxInputs: maxInputsOf(model, config), webhooks })
    : undefined;
  if (webhooks !== undefined) replica?.deliver(webhooks);
  return { metrics, store, webhooks, replica, queued, service };
}

/** The error for a request after a failed load; also asks for another load. Undefined if the last load did not fail. */
function engineRefusal(engine: EngineLink | undefined): SconceError | undefined {
  if (engine?.state !== "failed") return undefined;
  engine.need();
  return engine.refusal;
}

async function replicaOf(
  { config, version }: FrontModelOptions,
  parts: { readonly memory: MemoryAccount; readonly metrics: Metrics; readonly fronts: number },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = version.reference } = config;
  if (url === undefined) return undefined;
  // Loading the Redis client takes a tenth of a server's start, so only servers with --queue load it.
  const { Replica } = await import("../predictions/redis/replica.ts");
  return new Replica({ ...parts, config, url, name, repository: version.repository });
}
