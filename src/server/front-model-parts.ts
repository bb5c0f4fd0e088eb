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
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { type RunningModel, tearDown } from "../pipeline/set-up.ts";
import { ownerOf } from "../predictions/ids.ts";
import { openStore } from "../predictions/open-store.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import type { Replica } from "../predictions/redis/replica.ts";
import { RunningBuild } from "../predictions/running-build.ts";
import type { PredictionService } from "../predictions/service.ts";
import type { PredictionStore } from "../predictions/store.ts";
import { openWebhooks, type Webhooks } from "../predictions/webhooks/webhooks.ts";
import { maxInputsOf, openService } from "./front-service.ts";
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
  if (running === undefined) return { ...parts, running, flow: undefined, runs: undefined };
  const { engine, pipeline } = running;
  const flow = new ItemFlow(engine, pipeline, { ...config, memory, observer: metrics });
  const runs = new RunningBuild({ flow, pipeline, bodies, version, maxInputs: maxInputsOf(model, config) });
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
  { served, model, bodies, runs }: Build,
  current: () => ServedBuild,
  opened: AsyncDisposableStack,
): Promise<ModelParts> {
  const { config, record } = served;
  const { memory, keys, tracing, unfinished, others } = shared;
  const { count, index, isCauseKnown, server } = shared.start;
  const metrics = shared.metricsOf(record.counts);
  const replica = opened.use(await replicaOf(served, { memory, metrics, fronts: count }));
  if (record.storeFault !== undefined) throw new SconceError("predictions_unusable", record.storeFault);
  const open = () => openStore(record.store, config, "member", { memory, server });
  const store = replica?.claims ?? opened.adopt(await open(), (it) => it.close());
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
      hasOthers: shared.isSeveral,
      store,
      metrics,
      memory,
      owner: ownerOf(index),
      unavailable: () => current().refuse(),
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

async function replicaOf(
  { config, version }: ServedBuild,
  parts: { readonly memory: MemoryAccount; readonly metrics: Metrics; readonly fronts: number },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = version.reference } = config;
  if (url === undefined) return undefined;
  // Loading the Redis client takes a tenth of a server's start, so only servers with --queue load it.
  const { Replica } = await import("../predictions/redis/replica.ts");
  return new Replica({ ...parts, config, url, name, repository: version.repository });
}
