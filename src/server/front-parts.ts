/** The parts of a front: store, model, engine, prediction service, webhooks. */
import { decodings } from "../author/decoding-gate.ts";
import type { Model } from "../author/define.ts";
import { paramsOf } from "../author/params.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import { loadPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { KeyCounts } from "./access/api-key.ts";
import { ApiKeys, keyNumbers } from "./access/api-keys.ts";
import type { ServeConfig } from "./config.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import { Hooks } from "./flow/hooks.ts";
import type { ItemFlow } from "./flow/item-flow.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";
import type { RunningHooks } from "./flow/running-hooks.ts";
import { type RunningModel, tearDown } from "./flow/set-up.ts";
import { maxInputsOf, openService } from "./front-service.ts";
import type { ListenOptions } from "./http/listener.ts";
import { familyOf, recordJson } from "./http/record-json.ts";
import type { SiblingsOptions } from "./http/siblings.ts";
import { Bodies } from "./inputs/bodies.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import { MemoryAccount, type MemoryAccountOptions } from "./memory/memory-account.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { Unfinished } from "./predictions/admission.ts";
import type { Predictions } from "./predictions/predictions.ts";
import type { PredictionRecord } from "./predictions/record.ts";
import type { PredictionService } from "./predictions/service.ts";
import type { PredictionStore } from "./predictions/store.ts";
import type { Replica } from "./queue/replica.ts";
import { fetcherFor, fileCapsOf, maxMemoryOf } from "./serve-limits.ts";
import { openWebhooks, type Webhooks } from "./webhooks/webhooks.ts";

/** Tools of a front for the function that opens its engine. */
export interface FrontTools {
  readonly model: Model;
  readonly fetcher: Fetcher;
  readonly fileCaps: FileCaps;
  readonly metrics: Metrics;
  readonly hooks: Hooks;
}

export interface FrontOptions {
  readonly packaged: PackagedModel;
  readonly config: ServeConfig;
  readonly listening?: Partial<ListenOptions>;
  /** Prefix of the ids of this front's predictions. */
  readonly owner: string;
  /** Whether this front resumes the predictions of an owner after a restart; by default it resumes all. */
  readonly isOwn?: (owner: string) => boolean;
  /** Counters that the fronts of a server share. */
  readonly metrics?: Metrics;
  /** Process ids of the server, without the engine's, by their names in metrics. */
  readonly processes: () => Readonly<Record<string, number>>;
  /** Whether this front reports the size of the store. Of several fronts with one database, only one does. */
  readonly countsStore?: boolean;
  /** Opens the port only when the front is ready: other fronts answer meanwhile. */
  readonly listensLate?: boolean;
  /** The other fronts of this server. */
  readonly siblings?: SiblingsOptions;
  /** Called when this front has finished its accepted work. Resolves when the other fronts have, too. This front keeps listening until then. */
  readonly othersDone?: () => Promise<void>;
  /** Accepted, unfinished work of this front, in memory that the other fronts read, and the sums of the other fronts. */
  readonly unfinished?: Unfinished;
  readonly others?: () => Readonly<Unfinished>;
  /** Numbers of the API keys in memory that the fronts share; by default this process has them alone. */
  readonly keyCounts?: KeyCounts;
  /** Memory that the fronts hold for clients. */
  readonly memory?: MemoryAccountOptions["siblings"];
  /** Called when the port is open, before any other work. */
  readonly onListening?: () => void;
  /** Called when the model is set up, before predictions of an earlier process run. */
  readonly onSetUp?: () => void;
  /** Opens the engine, after the port. Undefined for a replica that runs no predictions. */
  readonly run: ((tools: FrontTools) => Promise<RunningModel>) | undefined;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
  /** Records running hooks in a file, so that a supervisor can restart a front that a hook blocks. */
  readonly runningHooks?: RunningHooks;
}

export interface FrontParts {
  readonly options: FrontOptions;
  readonly memory: MemoryAccount;
  readonly metrics: Metrics;
  /** Undefined without --api-keys. */
  readonly keys: ApiKeys | undefined;
  readonly model: Model;
  readonly store: PredictionStore;
  readonly decoder: InputDecoder;
  readonly hooks: Hooks;
  readonly webhooks: Webhooks | undefined;
  /** This process as a replica; undefined without `--queue`. */
  readonly replica: Replica | undefined;
  /** The predictions of the queue, for the routes. Undefined without `--queue`, and with `--role worker`. */
  readonly queued: Predictions | undefined;
  /** The engine and the service that runs predictions; undefined for a replica that runs none. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly service: PredictionService | undefined;
}

/**
 * @param opened closes the parts
 * @throws SconceError `predictions_unusable`, or an error of the model's set-up
 */
export async function openParts(options: FrontOptions, opened: AsyncDisposableStack): Promise<FrontParts> {
  const {
    packaged,
    config,
    run,
    openStore,
    owner,
    unfinished,
    others,
    runningHooks,
    metrics = new Metrics(),
  } = options;
  const memory = new MemoryAccount({
    maxBytes: maxMemoryOf(config),
    ...(options.memory && { siblings: options.memory }),
  });
  opened.defer(decodings.useBudget(memory.pictures));
  const keys = keysOf(options);
  if (keys !== undefined) opened.use(keys);
  const replica = opened.use(await replicaOf(options, { memory, metrics }));
  const store = replica?.claims ?? opened.adopt(await openStore(memory), (it) => it.close());
  const model = await loadPackaged(packaged);
  model.shared.params = paramsOf(model.params, config.param);
  const fetcher = opened.use(fetcherFor(config));
  const lag = watchLag(metrics, opened);
  const hooks = new Hooks({ limitMs: config.hookTimeout * 1000, lag, running: runningHooks });
  if (run !== undefined) opened.defer(() => tearDown(model));
  const running = await run?.({ model, fetcher, fileCaps: fileCapsOf(config), metrics, hooks });
  opened.defer(() => running?.engine.close());
  const decoder = new InputDecoder(model.input);
  const bodies = opened.use(new Bodies(decoder, new LargeBodies(packaged.bundle, decoder, { memory })));
  const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
  const webhooks = openWebhooks(config, { store, metrics, memory, json });
  opened.defer(() => webhooks?.stop());
  const isCauseKnown = runningHooks?.isKnown ?? false;
  const shared = {
    config,
    model,
    unfinished,
    others,
    bodies,
    store,
    metrics,
    memory,
    owner,
    webhooks,
    isCauseKnown,
    keys,
  };
  const { flow, service } = running === undefined ? {} : openService({ ...shared, running });
  const answersClients = config.role !== "worker";
  const queued = answersClients
    ? replica?.front({ bodies, maxInputs: maxInputsOf(model, config), webhooks })
    : undefined;
  if (webhooks !== undefined) replica?.deliver(webhooks);
  return {
    options,
    memory,
    metrics,
    keys,
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
  };
}

/** @throws SconceError `usage` for a file without valid keys */
function keysOf({ config: { apiKeys }, keyCounts }: FrontOptions): ApiKeys | undefined {
  if (apiKeys === undefined) return undefined;
  return new ApiKeys(apiKeys, keyCounts ?? { rows: [new Float64Array(keyNumbers.length)], own: 0 });
}

/** Measures how long the event loop is blocked. */
function watchLag(metrics: Metrics, opened: AsyncDisposableStack): EventLoopLag {
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  return lag;
}

async function replicaOf(
  { config, packaged }: FrontOptions,
  parts: { readonly memory: MemoryAccount; readonly metrics: Metrics },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = `${packaged.repository}@${packaged.digest}` } = config;
  if (url === undefined) return undefined;
  // Loading the Redis client takes a tenth of a server's start, so only replicas load it.
  const { Replica } = await import("./queue/replica.ts");
  return new Replica({ ...parts, config, url, name, repository: packaged.repository });
}
