/** Serves one packaged model, with the processes that this takes. */
import type { ServeConfig } from "./config.ts";
import { type Front, type FrontTools, openFront } from "./front.ts";
import { log } from "./log.ts";
import { MemoryStore } from "./predictions/memory-store.ts";
import { type RunFacts, type RunningModel, type SetUpOptions, setUp } from "./serving/set-up.ts";
import type { PackagedModel } from "./store/packaged-model.ts";

export type Server = Front;

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
  const front = await openFront({
    packaged,
    config,
    owner: "0",
    run: async (tools) => {
      await prepareLibraries();
      return runHere(packaged, config, tools);
    },
    openStore: async () =>
      new MemoryStore({
        maxCount: config.retainCount,
        maxAgeMs: config.retainAge * 1000,
        maxBytes: config.retainBytes,
      }),
  });
  log.info(`Listening on ${front.url.origin}`);
  return front;
}

/** The engine in the front's own process. */
async function runHere(
  packaged: PackagedModel,
  config: ServeConfig,
  { model, fetcher, fileCaps, metrics }: FrontTools,
): Promise<RunningModel> {
  const running = await setUp({
    model,
    pathOf: (name) => packaged.layer(name).path,
    example: packaged.config.example,
    settings: settingsOf(config),
    fetcher,
    fileCaps,
    observer: metrics,
    onShrink: logShrink,
  });
  logRunning(running.facts);
  return running;
}

function settingsOf(config: ServeConfig): SetUpOptions["settings"] {
  return {
    batchSize: config.batchSize,
    maxQueueDelayMs: config.maxQueueDelay,
    latencyTargetMs: config.latencyTarget,
    device: config.device,
    instances: config.instances,
    threads: config.threads,
  };
}

function logRunning({ devices, threads, instances, maxBatchSize, forwardMs }: RunFacts): void {
  const cores = `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const copies = instances === 1 ? "" : `, ${instances} instances`;
  const times = forwardMs.map(([size, ms]) => `${ms.toPrecision(2)} ms for ${size}`).join(", ");
  log.info(
    `Running on ${devices.join(", ")} with ${cores}${copies}, max batch size ${maxBatchSize}${times ? `; a forward pass takes ${times}` : ""}`,
  );
}

/** One warning each time: the batches that failed are run again and do not matter. */
function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: they have at most ${maxBatchSize} from now on; --batch-size ${maxBatchSize} makes that so from the start`,
  );
}
