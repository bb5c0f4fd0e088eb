/** One process that answers clients: it listens, makes inputs ready for an engine, and keeps predictions. */
import { version } from "../../package.json";
import { decodings, STUCK_MS } from "../author/decoding-gate.ts";
import type { Model } from "../author/define.ts";
import { log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import { loadModel } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import type { ServeConfig } from "./config.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import { Hooks } from "./flow/hooks.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";
import type { RunningHooks } from "./flow/running-hooks.ts";
import type { RunningModel } from "./flow/set-up.ts";
import { maxInputsOf, openService } from "./front-service.ts";
import { createApp } from "./http/app.ts";
import { type Fetch, Listener, type ListenOptions } from "./http/listener.ts";
import { LiveThread } from "./http/live-thread.ts";
import { shortened } from "./http/openapi/samples.ts";
import { OutputLinks } from "./http/output-links.ts";
import { familyOf, recordJson } from "./http/record-json.ts";
import { withContext } from "./http/request.ts";
import { createStartingApp, createWorkerApp, Lifecycle } from "./http/routes/health.ts";
import { listenForSiblings, Siblings, type SiblingsOptions } from "./http/siblings.ts";
import { Bodies } from "./inputs/bodies.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import { MemoryAccount, type MemoryAccountOptions } from "./memory/memory-account.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { Unfinished } from "./predictions/admission.ts";
import type { PredictionRecord } from "./predictions/record.ts";
import type { PredictionService } from "./predictions/service.ts";
import type { PredictionStore } from "./predictions/store.ts";
import type { Replica } from "./queue/replica.ts";
import { fetcherFor, fileCapsOf, maxMemoryOf } from "./serve-limits.ts";
import { openWebhooks } from "./webhooks/webhooks.ts";

/** What a front hands to whoever opens its engine. */
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
  /** Begins the ids of its predictions. */
  readonly owner: string;
  /** Whose predictions this front resumes after a restart; by default all. */
  readonly isOwn?: (owner: string) => boolean;
  /** Where the fronts of a server count together. */
  readonly metrics?: Metrics;
  /** The pids of the server's processes but the engine's, by their names in metrics. */
  readonly processes: () => Readonly<Record<string, number>>;
  /** Whether what the store keeps is this front's to count: of several with one database, one does. */
  readonly countsStore?: boolean;
  /** Opens the port at the end: others answer at it meanwhile. */
  readonly listensLate?: boolean;
  /** The other fronts of this server, where there are several. */
  readonly siblings?: SiblingsOptions;
  /** Called when this front has finished what it accepted; resolves when they have, too. Until then it answers at the port that all share. */
  readonly othersDone?: () => Promise<void>;
  /** What this front has accepted and not ended, where the others see it, and what the others have. */
  readonly unfinished?: Unfinished;
  readonly others?: () => Readonly<Unfinished>;
  /** The memory that this front holds for clients, where the others see it. */
  readonly memory?: MemoryAccountOptions["siblings"];
  /** Called when the port is open, before anything else is done. */
  readonly onListening?: () => void;
  /** Called when the model is set up, before predictions of an earlier process run. */
  readonly onSetUp?: () => void;
  /** Opens the engine; called once the port is open. Undefined for a front of replicas, which runs nothing. */
  readonly run: ((tools: FrontTools) => Promise<RunningModel>) | undefined;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
  /** The calls of hooks under way; without it nobody starts a front again that a hook holds. */
  readonly runningHooks?: RunningHooks;
}

/** How long requests that still come, and the ends of answers, may take once nothing large is sent any more; then connections are closed. */
const LAST_ANSWERS_MS = 2000;

export interface Front {
  /** As it can be typed on this machine. */
  readonly url: URL;
  /** Takes nothing new, finishes what was accepted, and closes. May be called twice. */
  stop(): Promise<void>;
}

/**
 * Opens the port, then sets the model up; resolves when predictions are taken.
 * @throws SconceError `address_in_use`, `predictions_unusable`, or of the model when it cannot be set up
 */
export async function openFront(options: FrontOptions): Promise<Front> {
  const {
    packaged,
    config,
    listening,
    owner,
    isOwn = () => true,
    run,
    openStore,
    unfinished,
    others,
    listensLate = false,
    countsStore = true,
  } = options;
  const lifecycle = new Lifecycle();
  await using opened = new AsyncDisposableStack();
  const open = (fetch: Fetch) => {
    const listener = new Listener({ ...config, ...listening }, fetch);
    opened.defer(() => listener.stop(true));
    if (listening?.unix === undefined) opened.use(new LiveThread(listener.port));
    return listener;
  };
  const { accessLog } = config;
  const starting = withContext(
    createStartingApp(lifecycle, config.role === "worker" ? undefined : packaged.repository).fetch,
    { accessLog },
  );
  const early = listensLate ? undefined : open(starting);
  options.onListening?.();
  const maxBytes = maxMemoryOf(config);
  const memory = new MemoryAccount({ maxBytes, ...(options.memory && { siblings: options.memory }) });
  opened.defer(decodings.useBudget(memory.pictures));
  const { metrics = new Metrics() } = options;
  const replica = opened.use(await replicaOf(options, { memory, metrics }));
  const store = replica?.claims ?? opened.adopt(await openStore(memory), (it) => it.close());
  const model = await loadModel(await packaged.code(), packaged.digest);
  const fetcher = opened.use(fetcherFor(config));
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  const hooks = new Hooks({ limitMs: config.hookTimeout * 1000, lag, running: options.runningHooks });
  const running = await run?.({ model, fetcher, fileCaps: fileCapsOf(config), metrics, hooks });
  const engine = running?.engine;
  opened.defer(() => engine?.close());
  const decoder = new InputDecoder(model.input);
  const bodies = opened.use(new Bodies(decoder, new LargeBodies(packaged.bundle, decoder, { memory })));
  const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
  const webhooks = openWebhooks(config, { store, metrics, memory, json });
  opened.defer(() => webhooks?.stop());
  const work =
    running &&
    openService({
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
      webhooks,
      isCauseKnown: options.runningHooks?.isKnown ?? false,
    });
  const { flow, service } = work ?? {};
  const front =
    config.role === "worker" ? undefined : replica?.front({ bodies, maxInputs: maxInputsOf(model, config), webhooks });
  if (webhooks !== undefined) replica?.deliver(webhooks);
  const batchSize = () => engine?.maxBatchSize ?? config.batchSize ?? model.settings.batchSize ?? 1;
  metrics.watch(() => ({
    active: service?.live.unfinished.predictions ?? 0,
    waitingItems: flow?.credits.unsent ?? 0,
    runningItems: flow?.credits.running ?? 0,
    oldestItemSeconds: (service?.live.oldestWaitMs ?? 0) / 1000,
    queuedBytes: service?.live.unfinished.bytes ?? 0,
    waitingWebhooks: webhooks?.waiting ?? 0,
    oldestWebhookSeconds: (webhooks?.oldestMs ?? 0) / 1000,
    retained: countsStore ? (replica ?? store).retained.count : 0,
    retainedBytes: countsStore ? (replica ?? store).retained.bytes : 0,
    readyItems: flow?.ready.items ?? 0,
    readyBytes: flow?.ready.bytes ?? 0,
    memory: memory.parts,
    queue: replica?.gauges,
    limits: {
      memoryBytes: memory.maxBytes,
      batchItems: batchSize(),
      queuedItems: config.maxQueuedItems,
      queuedBytes: config.maxQueuedBytes,
      readyBytes: config.maxReadyBytes,
      predictionSeconds: config.timeout,
    },
    build: { version, torch: running?.facts.torch ?? "", device: running?.facts.devices.join(",") ?? "" },
    model: { repository: packaged.repository, tag: generatedTag(packaged.digest), digest: packaged.digest },
    processes: { ...options.processes(), ...(engine?.pid === undefined ? {} : { engine: engine.pid }) },
  }));
  let listener = early;
  // `Prefer: wait` may hold an answer back for longer than a connection may be silent.
  const onHold = (request: Request, isHeld: boolean) => listener?.timeout(request, isHeld ? 0 : config.idleTimeout);
  const siblings = options.siblings && new Siblings(options.siblings, onHold);
  lifecycle.hindrance = () => {
    if (engine?.isReady === false) return "engine";
    if (replica?.isConnected === false) return "queue";
    if ("isDetached" in store && store.isDetached) return "store";
    return decodings.stuckForMs < STUCK_MS ? undefined : "pictures";
  };
  const predictions = replica === undefined ? service : front;
  const app =
    predictions === undefined
      ? createWorkerApp({ lifecycle, metrics, siblings, config })
      : createApp({
          model: {
            name: packaged.repository,
            // Of this build and no other: `latest` would say nothing a minute later.
            tag: generatedTag(packaged.digest),
            digest: packaged.digest,
            description: model.description,
            // Halved where the device has too little memory.
            get batchSize() {
              return batchSize();
            },
            inputSchema: packaged.config.inputSchema,
            outputSchema: packaged.config.outputSchema,
            demoOutputSchema: packaged.config.demoOutputSchema ?? packaged.config.outputSchema,
            shortExample: await shortened(packaged.config.example ?? packaged.config.examples?.[0]),
            examples: [packaged.config.example, ...(packaged.config.examples ?? [])].filter(
              (each) => each !== undefined,
            ),
          },
          predictions,
          metrics,
          siblings,
          lifecycle,
          links: replica?.bucket && new OutputLinks({ values: replica.bucket, retainS: config.retainAge, memory }),
          maxBodyBytes: config.maxBodyBytes,
          decoder,
          memory,
          version,
          corsOrigin: config.corsOrigin,
          allowedHosts: config.allowedHosts,
          host: config.host,
          api: config.api,
          onInternalError: (error, context) =>
            logLimit.write("internal", (...more) => log.error(error, ...more, context.fields())),
          onHold,
          peerOf: (request) => listener?.peerOf(request),
        });
  if (options.siblings !== undefined) {
    const fetch = withContext(app.fetch, { accessLog: false, isForwarded: true });
    opened.use(listenForSiblings(options.siblings, fetch, metrics));
  }
  options.onSetUp?.();
  const resumed = (await service?.resume(isOwn)) ?? 0;
  if (resumed > 0) log.info(`Going on with ${resumed} predictions that were accepted before`);
  if (service !== undefined && engine !== undefined) replica?.work(service, engine);
  await replica?.ready();
  const answer = withContext(app.fetch, { metrics, accessLog });
  listener = early ?? open(answer);
  listener.fetch = answer;
  lifecycle.phase = "ready";
  const { url } = listener;
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    const { drainTimeout, shutdownDelay, linger } = config;
    if (shutdownDelay > 0) {
      lifecycle.phase = "leaving";
      await Bun.sleep(1000 * shutdownDelay);
    }
    lifecycle.phase = "draining";
    engine?.hurry();
    if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
    else if (service !== undefined) await drainAlone(service, drainTimeout);
    const lingersUntilMs = performance.now() + 1000 * linger;
    if (replica !== undefined) await replica.releaseWebhooks(1000 * linger);
    else await Promise.all([service?.live.unread.all(1000 * linger), webhooks?.settled(1000 * linger)]);
    await options.othersDone?.();
    const closed = listener?.stop();
    // Of an answer that is being read the rest can still be read, too. A request that is still on its way is only refused.
    await Promise.race([closed, answersSent(memory, lingersUntilMs - performance.now())]);
    await Promise.race([closed, Bun.sleep(LAST_ANSWERS_MS)]);
    await resources.disposeAsync();
  };
  return { url, stop: () => (stopped ??= stop()) };
}

/** Resolves when no large answer is being sent, or after about `maxMs`. */
async function answersSent(memory: MemoryAccount, maxMs: number): Promise<void> {
  const late = Bun.sleep(Math.max(0, maxMs)).then(() => true);
  while (memory.parts.answers > 0) {
    const isLate = await Promise.race([late, new Promise<boolean>((resolve) => memory.onceRoom(() => resolve(false)))]);
    if (isLate) return;
  }
}

/** Finishes what was accepted, within the time for it. */
async function drainAlone(service: PredictionService, drainTimeout: number | undefined): Promise<void> {
  await Promise.race([service.live.drain(), ...(drainTimeout === undefined ? [] : [Bun.sleep(1000 * drainTimeout)])]);
  const { predictions } = service.live.unfinished;
  if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
  service.live.abandon();
}

async function replicaOf(
  { config, packaged }: FrontOptions,
  own: { readonly memory: MemoryAccount; readonly metrics: Metrics },
): Promise<Replica | undefined> {
  const { queue: url, queueName: name = `${packaged.repository}@${packaged.digest}` } = config;
  if (url === undefined) return undefined;
  // Redis's client takes a tenth of a server's start to load.
  const { Replica } = await import("./queue/replica.ts");
  return new Replica({ ...own, config, url, name, repository: packaged.repository });
}
