/** Serves one packaged model: listens, sets it up, answers, drains. */
import { version } from "../package.json";
import type { ServeConfig } from "./config.ts";
import { type ErrorCode, messageOf, SconceError } from "./errors.ts";
import { AddressGuard } from "./fetching/address-guard.ts";
import { Fetcher } from "./fetching/fetcher.ts";
import { type AppOptions, createApp } from "./http/app.ts";
import { Lifecycle } from "./http/lifecycle.ts";
import { createStartingApp } from "./http/routes/health.ts";
import { InputDecoder } from "./inputs/input-decoder.ts";
import { LargeBodies } from "./inputs/large-bodies.ts";
import { log } from "./log.ts";
import { Metrics } from "./metrics.ts";
import type { Model } from "./model/define.ts";
import { loadModel } from "./model/load.ts";
import { PredictionService } from "./serving/prediction-service.ts";
import { type RunningModel, setUp } from "./serving/set-up.ts";
import type { PackagedModel } from "./store/packaged-model.ts";
import { generatedTag } from "./store/reference.ts";

export interface Server {
  /** As it can be typed on this machine. */
  readonly url: URL;
  /** Takes nothing new, finishes what was accepted, and closes. May be called twice. */
  stop(): Promise<void>;
}

const DEFAULT_MAX_INPUTS = 10_000;
/** How long the last answers may take to be sent once all that was accepted has ended; then connections are closed. */
const LAST_ANSWERS_MS = 2000;

/**
 * Opens the port, then sets the model up; resolves when it is ready.
 * @param prepareLibraries gets the addon to where it can be loaded
 * @throws SconceError `address_in_use`, or of the model when it cannot be set up
 */
export async function startServer(
  packaged: PackagedModel,
  config: ServeConfig,
  prepareLibraries: () => Promise<void> = async () => {},
): Promise<Server> {
  const lifecycle = new Lifecycle();
  const listener = listen(config, createStartingApp(lifecycle).fetch);
  try {
    await prepareLibraries();
    const { app, service, running, large, fetcher } = await setUpApp(packaged, config, {
      lifecycle,
      // `Prefer: wait` may hold an answer back for longer than a connection may be silent.
      onHold: (request, isHeld) => listener.timeout(request, isHeld ? 0 : config.idleTimeout),
    });
    log.info("Starting the prediction service");
    listener.reload({ fetch: app.fetch });
    lifecycle.phase = "ready";
    log.info(`Listening on ${listener.url.origin}`);
    let stopped: Promise<void> | undefined;
    const stop = async () => {
      lifecycle.phase = "draining";
      await service.drain();
      await Promise.race([listener.stop(), Bun.sleep(LAST_ANSWERS_MS)]);
      await listener.stop(true);
      await running.engine.close();
      large[Symbol.dispose]();
      fetcher[Symbol.dispose]();
    };
    return { url: listener.url, stop: () => (stopped ??= stop()) };
  } catch (error) {
    await listener.stop(true);
    throw error;
  }
}

function listen(config: ServeConfig, fetch: (request: Request) => Response | Promise<Response>) {
  try {
    return Bun.serve({
      port: config.port,
      hostname: config.host,
      idleTimeout: config.idleTimeout,
      // Bun answers larger bodies itself, with nothing in it; the routes answer with a problem.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      // By default Bun lets several processes listen on one port, and each client meets one of them.
      reusePort: false,
      fetch,
    });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const reason =
      code === "EADDRINUSE"
        ? "is in use by another program; choose another with --port"
        : `cannot be listened on (${messageOf(error)}); choose another with --port or --host`;
    throw new SconceError("address_in_use", `port ${config.port} of ${config.host} ${reason}`, { cause: error });
  }
}

/** The code of a packaged model. */
export async function loadPackaged(packaged: PackagedModel): Promise<Model> {
  log.info(`Setting up the model ${packaged.reference} (${packaged.digest})`);
  return loadModel(await Bun.file(packaged.bundle.path).text(), packaged.digest);
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

async function setUpApp(
  packaged: PackagedModel,
  config: ServeConfig,
  { lifecycle, onHold }: Required<Pick<AppOptions, "lifecycle" | "onHold">>,
) {
  const model = await loadPackaged(packaged);
  const metrics = new Metrics();
  const fetcher = fetcherFor(config);
  const running = await setUp({
    model,
    pathOf: (name) => packaged.layer(name).path,
    example: packaged.config.example,
    settings: {
      batchSize: config.batchSize,
      maxQueueDelayMs: config.maxQueueDelay,
      latencyTargetMs: config.latencyTarget,
      device: config.device,
      instances: config.instances,
      threads: config.threads,
    },
    fetcher,
    fileCaps: {
      ...(config.maxFileBytes === undefined ? {} : { maxBytes: config.maxFileBytes }),
      ...(config.maxPixels === undefined ? {} : { maxPixels: config.maxPixels }),
    },
    observer: metrics,
    onShrink: logShrink,
  });
  logRunning(running);
  log.info("Reading inputs from the input queue");
  const maxInputs = Math.min(config.maxInputs ?? model.settings.maxInputs ?? DEFAULT_MAX_INPUTS, config.maxQueuedItems);
  const service = new PredictionService({
    engine: running.engine,
    pipeline: running.pipeline,
    metrics,
    onFault: logFault,
    limits: {
      maxQueuedItems: config.maxQueuedItems,
      maxQueuedBytes: config.maxQueuedBytes,
      maxReadyBytes: config.maxReadyBytes,
      maxFetches: config.maxFetches,
      timeoutMs: config.timeout * 1000,
      maxLogBytes: config.maxLogBytes,
      maxResultBytes: config.maxResultBytes,
      retention: { maxCount: config.retainCount, maxAgeMs: config.retainAge * 1000, maxBytes: config.retainBytes },
    },
  });
  const decoder = new InputDecoder(model.input);
  const large = new LargeBodies({ path: packaged.bundle.path, digest: packaged.digest }, decoder);
  const app = createApp({
    model: {
      name: packaged.repository,
      // Of this build and no other: `latest` would say nothing a minute later.
      tag: generatedTag(packaged.digest),
      digest: packaged.digest,
      description: model.description,
      // Halved where the device has too little memory.
      get batchSize() {
        return running.engine.maxBatchSize;
      },
      inputSchema: packaged.config.inputSchema,
      outputSchema: packaged.config.outputSchema,
      demoOutputSchema: packaged.config.demoOutputSchema ?? packaged.config.outputSchema,
      example: packaged.config.example,
    },
    service,
    decoder,
    large,
    metrics,
    lifecycle,
    limits: { maxBodyBytes: config.maxBodyBytes, maxInputs, maxDemoInputs: Math.min(config.maxDemoInputs, maxInputs) },
    version,
    onInternalError: (error) => log.error(error),
    onHold,
  });
  return { app, service, running, large, fetcher };
}

function logRunning({ engine, devices, threads, forwardMs }: RunningModel): void {
  const cores = `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const copies = engine.instances === 1 ? "" : `, ${engine.instances} instances`;
  const times = [...forwardMs].map(([size, ms]) => `${ms.toPrecision(2)} ms for ${size}`).join(", ");
  log.info(
    `Running on ${devices.join(", ")} with ${cores}${copies}, max batch size ${engine.maxBatchSize}${times ? `; a forward pass takes ${times}` : ""}`,
  );
}

/** One warning each time: the batches that failed are run again and do not matter. */
function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: they have at most ${maxBatchSize} from now on; --batch-size ${maxBatchSize} makes that so from the start`,
  );
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
