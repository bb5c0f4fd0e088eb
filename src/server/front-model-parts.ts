/** Opens all parts of a model in an HTTP process: its code, its store, its engine and its predictions. */
import type { OpenedModel } from "../author/define.ts";
import { SconceError } from "../base/errors.ts";
import { familyOf, recordJson } from "../http/record-json.ts";
import { openPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { Hooks } from "../pipeline/hooks.ts";
import { Bodies } from "../pipeline/inputs/bodies.ts";
import { InputDecoder } from "../pipeline/inputs/input-decoder.ts";
import { LargeBodies } from "../pipeline/inputs/large-bodies.ts";
import { ItemFlow } from "../pipeline/item-flow.ts";
import { type RunningModel, tearDown } from "../pipeline/set-up.ts";
import { ownerOf } from "../predictions/ids.ts";
import { openStore } from "../predictions/open-store.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import { RunningBuild } from "../predictions/running-build.ts";
import type { Store } from "../predictions/store.ts";
import { openWebhooks, type Webhooks } from "../predictions/webhooks/webhooks.ts";
import { maxInputsOf, openPredictions } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { ServedBuild } from "./served-build.ts";

/** The parts of one build of a model. Another build of the same name can replace them. */
export interface Build {
  readonly served: ServedBuild;
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly hooks: Hooks;
  readonly decoder: InputDecoder;
  readonly bodies: Bodies;
  /** The engine; undefined, like `flow`, with --role front, which runs no predictions. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly runs: RunningBuild;
}

/** The parts of a model in this process that all its builds use. */
export interface ModelParts {
  readonly metrics: Metrics;
  readonly store: Store;
  readonly webhooks: Webhooks | undefined;
  readonly predictions: Predictions;
}

/**
 * Opens a build: its code, its engine, and the way of its inputs.
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError an error of the model's code or set-up
 */
export async function openBuild(
  shared: FrontShared,
  served: ServedBuild,
  opened: AsyncDisposableStack,
): Promise<Build> {
  const { config, version, hasEngine } = served;
  const { reference, home, counts } = served.record;
  const { memory, fetcher, lag, hookCell: cell, source, start } = shared;
  const metrics = shared.metricsOf(counts);
  const packaged = await source.resolve(reference, { home, weights: hasEngine });
  const model = await openPackaged(packaged, config.param);
  const hooks = new Hooks({ lag, cell, guilty: start.guilty });
  if (hasEngine) opened.defer(() => tearDown(model));
  const running = hasEngine ? await served.open({ packaged, model, fetcher, metrics, hooks }) : undefined;
  opened.defer(() => running?.engine.close());
  const decoder = new InputDecoder(model.input);
  const bodies = opened.use(new Bodies(decoder, new LargeBodies(packaged.bundle, decoder, { memory })));
  const parts = { served, packaged, model, hooks, decoder, bodies };
  const { engine, pipeline } = running ?? {};
  const { maxReadyBytes, maxFetches } = config;
  const fronts = start.count;
  const inFronts = fronts > 1 ? metrics : undefined;
  const limits = { maxReadyBytes, maxFetches, fronts, inFronts, memory, observer: metrics };
  const flow = running && new ItemFlow(running.engine, running.pipeline, limits);
  const runs = new RunningBuild({ flow, pipeline, engine, bodies, version, maxInputs: maxInputsOf(model, config) });
  return { ...parts, running, flow, runs };
}

/**
 * Opens the parts of a model that outlive a build.
 * @param current the current build
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `predictions_unusable`
 */
export async function openModelParts(
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
