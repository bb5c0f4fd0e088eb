/** Serves one packaged model, with the processes that this takes. */
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { ServeConfig } from "./config.ts";
import { type EngineEvents, EngineLink, logShrink } from "./engine-link.ts";
import type { EngineStart } from "./engine-process.ts";
import { type Front, type FrontTools, openFront } from "./front.ts";
import { log } from "./log.ts";
import { MemoryStore } from "./predictions/memory-store.ts";
import { makeRunFolder, type RunFolder } from "./processes/run-folder.ts";
import { Supervised } from "./processes/supervised.ts";
import { type RunFacts, type RunningModel, settingsOf, setUp } from "./serving/set-up.ts";
import type { PackagedModel } from "./store/packaged-model.ts";

export type Server = Front;

export interface ServerOptions {
  readonly packaged: PackagedModel;
  readonly config: ServeConfig;
  /** Of this process, for those that it starts. */
  readonly argv?: readonly string[];
  /** Gets the addon to where this process can load it, if it is this process that does. */
  readonly prepareLibraries?: () => Promise<void>;
}

/** How long processes may take to end once their work is done. */
const STOP_MS = 5000;

/**
 * Opens the port, then sets the model up; resolves when it is ready.
 * @throws SconceError `address_in_use`, or of the model when it cannot be set up
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { packaged, config, prepareLibraries = async () => {} } = options;
  log.info(`Setting up the model ${packaged.reference} (${packaged.digest})`);
  await using opened = new AsyncDisposableStack();
  const run = config.isolate
    ? await openEngine(options, opened)
    : async (tools: FrontTools) => {
        await prepareLibraries();
        return runHere(packaged, config, tools);
      };
  const front = await openFront({ packaged, config, owner: "0", run, openStore: async () => memoryStore(config) });
  log.info(`Listening on ${front.url.origin}`);
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await front.stop();
    await resources.disposeAsync();
  };
  return { url: front.url, stop: () => (stopped ??= stop()) };
}

/** Starts the engine process; what it gives is for the front to open. */
async function openEngine({ packaged, config, argv = [] }: ServerOptions, opened: AsyncDisposableStack) {
  const folder = opened.use(await makeRunFolder());
  const link = new EngineLink();
  const engine = engineProcess({ packaged, config, argv, folder, events: link });
  opened.defer(() => engine.stop(STOP_MS));
  return async (tools: FrontTools) => {
    const [, running] = await Promise.all([engine.start(), link.open(packaged, tools)]);
    logRunning(running.facts);
    return running;
  };
}

interface EngineProcessOptions extends Required<Pick<ServerOptions, "packaged" | "config" | "argv">> {
  readonly folder: RunFolder;
  readonly events: EngineEvents;
}

function engineProcess({ packaged, config, argv, folder, events }: EngineProcessOptions): Supervised {
  let starts = 0;
  let socket = "";
  return new Supervised({
    role: "engine",
    start: (): EngineStart => {
      // Of its own for each: whoever connects to it meets that process or none.
      socket = folder.join(`engine-${starts++}.sock`);
      const reference = `${packaged.repository}@${packaged.digest}`;
      return { argv: [...argv], reference, config, socket };
    },
    batchTimeoutMs: 1000 * (config.batchTimeout ?? config.timeout),
    onReady: () => events.ready(socket),
    onEnd: (reason) => {
      rmSync(socket, { force: true });
      events.ended(reason);
    },
  });
}

/** The engine in the front's own process. */
async function runHere(packaged: PackagedModel, config: ServeConfig, tools: FrontTools): Promise<RunningModel> {
  const { model, fetcher, fileCaps, metrics } = tools;
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

function memoryStore({ retainCount, retainAge, retainBytes }: ServeConfig): MemoryStore {
  return new MemoryStore({ maxCount: retainCount, maxAgeMs: retainAge * 1000, maxBytes: retainBytes });
}

function logRunning({ devices, threads, instances, maxBatchSize, forwardMs }: RunFacts): void {
  const cores = `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const copies = instances === 1 ? "" : `, ${instances} instances`;
  const times = forwardMs.map(([size, ms]) => `${ms.toPrecision(2)} ms for ${size}`).join(", ");
  log.info(
    `Running on ${devices.join(", ")} with ${cores}${copies}, max batch size ${maxBatchSize}${times ? `; a forward pass takes ${times}` : ""}`,
  );
}

/** How many fronts serve best on this machine; each is a thread of JavaScript. */
export function frontsOf({ fronts }: ServeConfig, cores = availableParallelism()): number {
  if (fronts !== undefined) return fronts;
  if (cores >= 16) return 4;
  return cores >= 8 ? 2 : 1;
}
