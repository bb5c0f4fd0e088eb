/** Opens all parts of a model in an HTTP process: its code, its store, its engine and its predictions. */
import type { OpenedModel } from "../author/define.ts";
import type { SconceError } from "../base/errors.ts";
import { openPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineLink } from "./engine-link.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import { Hooks } from "./flow/hooks.ts";
import type { ItemFlow } from "./flow/item-flow.ts";
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
import type { SplitShare } from "./predictions/split.ts";
import type { PredictionStore } from "./predictions/store.ts";
import type { Replica } from "./queue/replica.ts";
import { openWebhooks, type Webhooks } from "./webhooks/webhooks.ts";

/** Parts that the engine needs when it is opened. */
export interface FrontTools {
  readonly model: OpenedModel;
  readonly fetcher: Fetcher;
  readonly metrics: Metrics;
  readonly hooks: Hooks;
}

export interface FrontModelOptions {
  readonly name: string;
  /** Tag in the reference that the server was started with. Paths may name the model as `NAME:TAG`. */
  readonly tag: string;
  readonly packaged: PackagedModel;
  /** Options of the server, overridden by the model's own options. */
  readonly config: ServeConfig;
  /** Name and weight of a version that shares the traffic of a name; undefined without --split. */
  readonly split?: SplitShare | undefined;
  /** Whether the model is a shadow: it gets copies of the predictions of other builds. */
  readonly isShadow?: boolean | undefined;
  /** Counters of this model in memory that all HTTP processes share. Default: the process's counters. */
  readonly metrics?: Metrics;
  readonly engine?: EngineLink | undefined;
  /** Opens the engine, after the port. Undefined with --role front. */
  readonly run: ((tools: FrontTools) => Promise<RunningModel>) | undefined;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
}

export interface ModelParts {
  readonly metrics: Metrics;
  readonly model: OpenedModel;
  readonly hooks: Hooks;
  readonly store: PredictionStore;
  readonly decoder: InputDecoder;
  readonly bodies: Bodies;
  readonly webhooks: Webhooks | undefined;
  /** This server as a replica, which shares predictions in Redis; undefined without `--queue`. */
  readonly replica: Replica | undefined;
  /** The predictions in Redis, for the routes. Undefined without `--queue`, and with `--role worker`. */
  readonly queued: Predictions | undefined;
  /** The engine; undefined, like `flow` and `service`, with --role front, which runs no predictions. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly service: PredictionService | undefined;
  readonly refusals: Refusals;
}

/**
 * Opens the parts of a model.
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `predictions_unusable`, or an error of the model's set-up
 */
export async function openModelParts(
  shared: FrontShared,
  options: FrontModelOptions,
  opened: AsyncDisposableStack,
): Promise<ModelParts> {
  const { packaged, config, run, openStore, metrics = shared.metrics } = options;
  const { memory, keys, fetcher, lag, tracing } = shared;
  const { owner, unfinished, others, hookCell: cell, guilty, blocked, siblings } = shared.options;
  const replica = opened.use(await replicaOf(options, { memory, metrics, fronts: siblings?.count ?? 1 }));
  const store = replica?.claims ?? opened.adopt(await openStore(memory), (it) => it.close());
  const model = await openPackaged(packaged, config.param);
  const hooks = new Hooks({
    lag,
    cell,
    guilty,
    aloneMs: blocked === "by unknown" ? 2000 * config.hookTimeout : 0,
  });
  if (run !== undefined) opened.defer(() => tearDown(model));
  const running = await run?.({ model, fetcher, metrics, hooks });
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
          isCauseKnown: blocked === "by guilty",
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
  return {
    metrics,
    model,
    hooks,
    store,
    decoder,
    bodies,
    webhooks,
    replica,
    queued,
    running,
    flow,
    service,
    refusals,
  };
}

/** The error for a request after a failed load; also asks for another load. Undefined if the last load did not fail. */
function engineRefusal(engine: EngineLink | undefined): SconceError | undefined {
  if (engine?.state !== "failed") return undefined;
  engine.need();
  return engine.refusal;
}

/** Decides which unfinished predictions of other builds fail, because this build does not run them. */
export class Refusals {
  readonly #version: ModelVersion | undefined;
  readonly #takesOver: boolean;
  /** Why other builds do not run, by reference. Each reason completes the sentence "digits:v1, which …". */
  unavailable: Readonly<Record<string, string>> = {};
  count = 0;

  constructor(version: ModelVersion | undefined, takesOver: boolean) {
    this.#version = version;
    this.#takesOver = takesOver;
  }

  /** @returns the error message for a prediction that another build accepted; undefined if this build runs it */
  of(accepted: ModelVersion): string | undefined {
    if (accepted === this.#version || this.#takesOver) return undefined;
    this.count += 1;
    const reason = this.unavailable[accepted.reference] ?? "does not run here";
    return `This was accepted by ${accepted.name}, which ${reason}. ${this.#version?.name ?? "Another build"} has not run it`;
  }
}

async function replicaOf(
  { config, packaged }: FrontModelOptions,
  parts: { readonly memory: MemoryAccount; readonly metrics: Metrics; readonly fronts: number },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = `${packaged.repository}@${packaged.digest}` } = config;
  if (url === undefined) return undefined;
  // Loading the Redis client takes a tenth of a server's start, so only servers with --queue load it.
  const { Replica } = await import("./queue/replica.ts");
  return new Replica({ ...parts, config, url, name, repository: packaged.repository });
}
