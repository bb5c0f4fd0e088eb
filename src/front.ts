/** One process that answers clients: it listens, makes inputs ready for an engine, and keeps predictions. */
import { version } from "../package.json";
import type { ServeConfig } from "./config.ts";
import type { ErrorCode, SconceError } from "./errors.ts";
import { AddressGuard } from "./fetching/address-guard.ts";
import { Fetcher } from "./fetching/fetcher.ts";
import { createApp } from "./http/app.ts";
import { Lifecycle } from "./http/lifecycle.ts";
import { type Fetch, Listener, type ListenOptions } from "./http/listener.ts";
import { createStartingApp } from "./http/routes/health.ts";
import { listenForSiblings } from "./http/sibling-listener.ts";
import { Siblings, type SiblingsOptions } from "./http/siblings.ts";
import { Bodies } from "./inputs/bodies.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import { log } from "./log.ts";
import { MemoryAccount, type MemoryAccountOptions } from "./memory/memory-account.ts";
import { memoryLimit } from "./memory/memory-limit.ts";
import { Metrics } from "./metrics.ts";
import type { Model } from "./model/define.ts";
import { loadModel } from "./model/load.ts";
import type { Unfinished } from "./predictions/admission.ts";
import { PredictionService } from "./predictions/service.ts";
import type { PredictionStore } from "./predictions/store.ts";
import { EventLoopLag } from "./processes/event-loop-lag.ts";
import { ItemFlow } from "./serving/item-flow.ts";
import type { FileCaps } from "./serving/item-pipeline.ts";
import type { RunningModel } from "./serving/set-up.ts";
import type { PackagedModel } from "./store/packaged-model.ts";
import { generatedTag } from "./store/reference.ts";

/** What a front hands to whoever opens its engine. */
export interface FrontTools {
  readonly model: Model;
  readonly fetcher: Fetcher;
  readonly fileCaps: FileCaps;
  readonly metrics: Metrics;
  readonly lag: EventLoopLag;
}

export interface FrontOptions {
  readonly packaged: PackagedModel;
  readonly config: ServeConfig;
  readonly listening?: Partial<ListenOptions>;
  /** Begins the ids of its predictions. */
  readonly owner: string;
  /** Whose predictions this front goes on with after a restart; by default all. */
  readonly isOwn?: (owner: string) => boolean;
  /** Whether what the store keeps is this front's to count: of several with one database, one does. */
  readonly countsStore?: boolean;
  /** Opens the port at the end: others answer at it meanwhile. */
  readonly listensLate?: boolean;
  /** The other fronts of this server, where there are several. */
  readonly siblings?: SiblingsOptions;
  /** What this front has accepted and not ended, where the others see it, and what the others have. */
  readonly unfinished?: Unfinished;
  readonly others?: () => Readonly<Unfinished>;
  /** The memory that this front holds for clients, where the others see it. */
  readonly memory?: MemoryAccountOptions["siblings"];
  /** Called when the port is open, before anything else is done. */
  readonly onListening?: () => void;
  /** Opens the engine; called once the port is open. */
  readonly run: (tools: FrontTools) => Promise<RunningModel>;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
}

const DEFAULT_MAX_INPUTS = 10_000;
/** How long the last answers may take to be sent once all that was accepted has ended; then connections are closed. */
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
    return listener;
  };
  const early = listensLate ? undefined : open(createStartingApp(lifecycle).fetch);
  options.onListening?.();
  const maxBytes = config.maxMemory ?? Math.floor(memoryLimit() / 2);
  const memory = new MemoryAccount({ maxBytes, ...(options.memory && { siblings: options.memory }) });
  const store = opened.adopt(await openStore(memory), (it) => it.close());
  const model = await loadModel(await Bun.file(packaged.bundle.path).text(), packaged.digest);
  const metrics = new Metrics();
  const fetcher = opened.use(fetcherFor(config));
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  const { engine, pipeline } = await run({ model, fetcher, fileCaps: fileCapsOf(config), metrics, lag });
  opened.defer(() => engine.close());
  const decoder = new InputDecoder(model.input);
  const bundle = { path: packaged.bundle.path, digest: packaged.digest };
  const bodies = opened.use(new Bodies(decoder, new LargeBodies(bundle, decoder)));
  const flow = new ItemFlow(engine, pipeline, { ...config, memory });
  const service = new PredictionService({
    unfinished,
    others,
    bodies,
    flow,
    pipeline,
    store,
    metrics,
    memory,
    owner,
    onFault: logFault,
    limits: {
      maxInputs: maxInputsOf(model, config),
      maxQueuedItems: config.maxQueuedItems,
      maxQueuedBytes: config.maxQueuedBytes,
      timeoutMs: config.timeout * 1000,
      maxLogBytes: config.maxLogBytes,
      maxResultBytes: config.maxResultBytes,
    },
  });
  metrics.watch(() => ({
    active: service.unfinished.predictions,
    queuedItems: service.unfinished.items,
    queuedBytes: service.unfinished.bytes,
    retained: countsStore ? store.retained.count : 0,
    retainedBytes: countsStore ? store.retained.bytes : 0,
    readyItems: flow.ready.items,
    readyBytes: flow.ready.bytes,
    memory: memory.parts,
    memoryLimit: memory.maxBytes,
  }));
  const siblings = options.siblings && new Siblings(options.siblings);
  let listener = early;
  const app = createApp({
    model: {
      name: packaged.repository,
      // Of this build and no other: `latest` would say nothing a minute later.
      tag: generatedTag(packaged.digest),
      digest: packaged.digest,
      description: model.description,
      // Halved where the device has too little memory.
      get batchSize() {
        return engine.maxBatchSize;
      },
      inputSchema: packaged.config.inputSchema,
      outputSchema: packaged.config.outputSchema,
      demoOutputSchema: packaged.config.demoOutputSchema ?? packaged.config.outputSchema,
      example: packaged.config.example,
    },
    predictions: service,
    metrics,
    siblings,
    isReady: () => engine.isReady,
    lifecycle,
    maxBodyBytes: config.maxBodyBytes,
    memory,
    version,
    onInternalError: (error) => log.error(error),
    // `Prefer: wait` may hold an answer back for longer than a connection may be silent.
    onHold: (request, isHeld) => listener?.timeout(request, isHeld ? 0 : config.idleTimeout),
  });
  if (options.siblings !== undefined) opened.use(listenForSiblings(options.siblings, app.fetch, metrics));
  const resumed = await service.resume(isOwn);
  if (resumed > 0) log.info(`Going on with ${resumed} predictions that were accepted before`);
  listener = early ?? open(app.fetch);
  listener.fetch = app.fetch;
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
    engine.hurry();
    await Promise.race([service.drain(), ...(drainTimeout === undefined ? [] : [Bun.sleep(1000 * drainTimeout)])]);
    const { predictions } = service.unfinished;
    if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
    service.abandon();
    await service.allRead(1000 * linger);
    await Promise.race([listener?.stop(), Bun.sleep(LAST_ANSWERS_MS)]);
    await resources.disposeAsync();
  };
  return { url, stop: () => (stopped ??= stop()) };
}

/** Fetches files as the operator allows it. */
export function fetcherFor(config: ServeConfig): Fetcher {
  return new Fetcher({
    guard: new AddressGuard({ allowPrivate: config.allowPrivateUrls }),
    timeoutMs: config.fetchTimeout * 1000,
    maxRedirects: config.maxRedirects,
    maxBytes: Number.MAX_SAFE_INTEGER,
    userAgent: `sconce/${version}`,
  });
}

export function fileCapsOf({ maxFileBytes, maxPixels }: ServeConfig): FileCaps {
  return {
    ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
    ...(maxPixels === undefined ? {} : { maxPixels }),
  };
}

function maxInputsOf(model: Model, config: ServeConfig): { prediction: number; demo: number } {
  const prediction = Math.min(
    config.maxInputs ?? model.settings.maxInputs ?? DEFAULT_MAX_INPUTS,
    config.maxQueuedItems,
  );
  return { prediction, demo: Math.min(config.maxDemoInputs, prediction) };
}

/** What a client did wrong is for the client; what the model did is for the operator too, with its stack for who debugs. */
const clientFaults: ReadonlySet<ErrorCode> = new Set([
  "file_refused",
  "file_unavailable",
  "file_too_large",
  "file_invalid",
  "canceled",
]);

function logFault(where: string, error: SconceError): void {
  if (!clientFaults.has(error.code)) log.warn(`${where}: ${error.message}`);
  log.debug(`${where}:`, error.cause ?? error);
}
