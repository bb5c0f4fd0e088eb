/**
 * Serves packaged models: starts and supervises HTTP processes and engine processes. With --no-isolate, this process
 * does all the work itself.
 */
import { availableParallelism } from "node:os";
import { codedError, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { freeMemory } from "../machine/memory-limit.ts";
import { isLoopback } from "../machine/network/loopback.ts";
import { Background } from "../machine/processes/background.ts";
import { LoopGuard } from "../machine/processes/loop-guard.ts";
import { makeRunFolder } from "../machine/processes/run-folder.ts";
import { shortenSlicesBelow } from "../machine/processes/scheduling.ts";
import { starterPid } from "../machine/processes/start-again.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import { EarlierBuilds } from "./earlier-build.ts";
import { EngineLoads } from "./engine-loads.ts";
import type { Front } from "./front.ts";
import { Fronts } from "./fronts.ts";
import { ModelEngine, type ServedOptions } from "./model-engine.ts";
import { offerOf } from "./offer.ts";
import { OlderServer } from "./older-server.ts";
import { ownerOf } from "./predictions/ids.ts";
import { openStore, storePath } from "./predictions/open-store.ts";
import { heldAfterMs, MAX_QUEUED_VALUE_BYTES } from "./serve-limits.ts";
import type { StartedServer } from "./server-control.ts";
import { ServerStores } from "./server-stores.ts";
import { Upgradable } from "./upgrade.ts";

export type Server = Front;

export interface ServerOptions {
  /** The first model answers paths without a model name. */
  readonly models: readonly [ServedOptions, ...ServedOptions[]];
  readonly config: ServeConfig;
  /** The command line with which child processes find the model and its libraries. */
  readonly argv?: readonly string[];
  /**
   * Starts a newer server; returns undefined if one starts already. Unset for a server that a newer server could not
   * find.
   */
  readonly startNewer?: (() => StartedServer | undefined) | undefined;
  /** Called when a newer server has taken over; must stop this server. By default this process sends itself SIGTERM. */
  readonly onRetire?: () => void;
  /** Verifies and unpacks the model and the libraries. By default they are loaded in place, unchecked. */
  readonly source?: Pick<ModelSource, "resolve" | "verify" | "unpackLibraries" | "prepareLibraries">;
}

/**
 * Opens the port, then sets up the models; resolves when the server is ready.
 * @throws SconceError `address_in_use`, or the error of a model's set-up
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config } = options;
  checkReplica(config);
  const count = frontsOf(config);
  if (count > 1 && !config.isolate) {
    throw new SconceError("usage", `--fronts ${count} needs an engine process: remove --no-isolate`);
  }
  checkLoads(options);
  await using opened = new AsyncDisposableStack();
  const front = config.isolate ? await openFronts(options, count, opened) : await openOne(options, opened);
  log.info("Reading inputs from the input queue");
  log.info("Starting the prediction service");
  log.info(`Listening on ${front.url.origin}`);
  if (front.adminUrl !== undefined) log.info(`Admin port: ${front.adminUrl.origin}`);
  if (isOpenToAll(config)) {
    log.info(
      "Everyone who reaches the port may use the server: --host 127.0.0.1 or --api-keys FILE restrict it. Browsers may not use a public name over HTTP: --allowed-hosts NAME allows it (docs/security.md)",
    );
  }
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await front.stop();
    await resources.disposeAsync();
  };
  return { url: front.url, adminUrl: front.adminUrl, stop: () => (stopped ??= stop()) };
}

function isOpenToAll({ host, apiKeys, tlsClientCa, role }: ServeConfig): boolean {
  return apiKeys === undefined && tlsClientCa === undefined && role !== "worker" && !isLoopback(host) && host !== "::1";
}

/** Checks the options of servers that share a queue. @throws SconceError `usage` */
function checkReplica({ queue, role, store, maxBodyBytes }: ServeConfig): void {
  if (queue !== undefined && maxBodyBytes > MAX_QUEUED_VALUE_BYTES) {
    throw new SconceError("usage", `--max-body-bytes ${maxBodyBytes}: with --queue, a body may have at most 64m`);
  }
  if (role !== "both" && queue === undefined) {
    throw new SconceError("usage", `--role ${role} is for servers that share a queue: add --queue`);
  }
  if (queue !== undefined && store !== undefined && store !== "memory") {
    throw new SconceError("usage", "with --queue, the queue stores predictions: remove --store");
  }
}

/** On 16 cores, 8 HTTP processes answered 1.4 times as many tiny requests as 4. More processes were not measured. */
const MAX_DEFAULT_FRONTS = 8;

/**
 * The number of HTTP processes (fronts): --fronts, else half of the cores, but 1 below 8 cores or with --no-isolate.
 * Each has one JavaScript thread, and more threads that decode pictures.
 */
export function frontsOf(
  { fronts, isolate }: Pick<ServeConfig, "fronts" | "isolate">,
  cores = availableParallelism(),
): number {
  if (fronts !== undefined) return fronts;
  return cores < 8 || !isolate ? 1 : Math.min(MAX_DEFAULT_FRONTS, Math.floor(cores / 2));
}

async function openOne({ models, config, source }: ServerOptions, opened: AsyncDisposableStack): Promise<Front> {
  // A dynamic import, so that the parent process of isolated servers does not load the code.
  const { openFront } = await import("./front.ts");
  const [{ name, packaged }] = models;
  return openFront({
    config,
    owner: ownerOf(0),
    control: {
      drain: () => process.kill(process.pid, "SIGTERM"),
      reload: async () => ({ refused: "a server with --no-isolate cannot be upgraded in place" }),
    },
    processes: () => ({ "front-1": process.pid }),
    onListening: () => logSetUp(packaged),
    // The guard ends a process whose event loop is blocked for too long. The set-up has no time limit, so the guard
    // starts later.
    onSetUp: () => void opened.use(new LoopGuard(heldAfterMs(config))),
    models: [
      {
        name,
        tag: packaged.tag,
        packaged,
        config,
        run:
          config.role === "front"
            ? undefined
            : async (tools) => {
                if (config.verify) await source?.verify(packaged);
                await source?.prepareLibraries();
                return (await import("./engine-link.ts")).runHere(packaged, config, tools);
              },
        openStore: (memory) => openStore(storePath(packaged.repository, config), config, "main", { memory }),
      },
    ],
  });
}

async function openFronts(options: ServerOptions, count: number, opened: AsyncDisposableStack): Promise<Front> {
  const { config, models } = options;
  const older = await OlderServer.find(config, offerOf(models, config));
  try {
    return await openBeside(older, options, count, opened);
  } catch (error) {
    older?.fail(codedError(error).message);
    throw error;
  }
}

async function openBeside(
  older: OlderServer | undefined,
  options: ServerOptions,
  count: number,
  opened: AsyncDisposableStack,
): Promise<Front> {
  const { config, argv = [], source } = options;
  using background = older === undefined ? undefined : Background.enter();
  // Restores normal scheduling: an older server started this process with idle priority, and has ended since.
  if (older === undefined && starterPid() !== undefined) Background.leaveAlone();
  let upgradable: Upgradable | undefined;
  // Deferred first, so that it runs last: the newer server then continues the unfinished predictions.
  opened.defer(() => upgradable?.end());
  const folder = opened.use(await makeRunFolder());
  const server = older?.nextServer ?? "";
  const earlier = new EarlierBuilds({ argv, source, server });
  const models = options.models.map((model) => ({
    ...model,
    isPreloaded: isPreloaded(model.name, config),
    store:
      model.config.queue === undefined ? storePath(model.name, model.config, options.models.length > 1) : undefined,
  }));
  const stores = opened.use(new ServerStores(models));
  if (older === undefined) {
    await stores.open("main");
    await stores.find(earlier);
  } else await stores.check();
  const relatives = earlier.news;
  const served = models.map((model) => {
    const storeFault = stores.faults.get(model);
    return { ...model, storeFault, isPreloaded: model.isPreloaded && storeFault === undefined };
  });
  const fronts = new Fronts({ models: served, config, argv, folder, count, relatives, server, older });
  for (const { packaged } of models) logSetUp(packaged);
  const isSeveral = models.length > 1;
  const engines = models.map(
    (model, i) =>
      new ModelEngine({
        ...model,
        argv,
        source,
        folder,
        events: fronts.ofModel(i),
        socketName: `engine-${i}`,
        isOneOfSeveral: isSeveral,
      }),
  );
  const loads = new EngineLoads({
    models: config.role === "front" ? [] : engines.map((engine, i) => ({ engine, fronts: fronts.ofModel(i) })),
    keepAliveMs: config.keepAlive === undefined ? undefined : 1000 * config.keepAlive,
    maxLoaded: config.maxLoaded,
    freeBytes: freeMemory,
  });
  fronts.onMove = (model, move) => loads.move(model, move);
  opened.defer(() => loads.stop());
  opened.defer(() => earlier.stop());
  if (older === undefined) earlier.start((news) => fronts.changeRelatives(news));
  // A server with several models starts without one that cannot be loaded, unless it upgrades an older server.
  const start = (i: number) => (isSeveral && older === undefined ? loads.load(i, true, true) : loads.start(i, true));
  try {
    const preloaded = served.flatMap(({ isPreloaded }, i) => (isPreloaded ? [i] : []));
    const starting = Promise.all([fronts.start(), ...preloaded.map(start)]);
    if (older !== undefined) {
      await Promise.race([fronts.prepared, starting]);
      background?.leave();
      if (isSeveral) shortenSlicesBelow();
      fronts.listen();
    }
    await starting;
  } catch (error) {
    await Promise.all([fronts.end(), earlier.end()]);
    throw error;
  }
  await older?.takeOver(fronts);
  const goOn = async () => {
    await stores.find(earlier);
    fronts.changeRelatives(earlier.news);
    fronts.setOther(undefined);
    earlier.start((news) => fronts.changeRelatives(news));
  };
  const { onRetire = () => void process.kill(process.pid, "SIGTERM"), startNewer } = options;
  const stop = () => {
    // A second signal would end a stopping server at once.
    if (!fronts.isStopping) onRetire();
  };
  const offer = offerOf(options.models, config);
  const place = { host: config.host, port: Number(fronts.url.port) };
  const upgrades = opened.use(new Upgradable(place, { fronts, server, offer, stop, goOn, startNewer }));
  upgradable = upgrades;
  fronts.onReload = (waitMs) => upgrades.reload(waitMs);
  await upgrades.open();
  if (older === undefined) upgrades.allow();
  else {
    const inherit = async () => {
      await older.ended;
      if (stores.isClosed) return;
      await stores.open("heir");
      await goOn();
      log.info("The older server has ended");
      upgrades.allow();
    };
    inherit().catch((error) => {
      if (!stores.isClosed) log.error(error);
    });
  }
  return fronts;
}

/**
 * Whether the server loads a model at its start: with --preload, the named models; otherwise all, unless --keep-alive
 * or --max-loaded loads them on demand. Never with --role front.
 */
function isPreloaded(name: string, { preload, keepAlive, maxLoaded, role }: ServeConfig): boolean {
  if (role === "front") return false;
  const names = preload ?? (keepAlive === undefined && maxLoaded === undefined ? ["all"] : []);
  return names.includes("all") || names.includes(name);
}

/** Checks the options that load and unload models. @throws SconceError `usage` */
function checkLoads({ models, config }: ServerOptions): void {
  const { preload = [], keepAlive, maxLoaded, isolate, shadow } = config;
  const isOnDemand = keepAlive !== undefined || maxLoaded !== undefined;
  if (isOnDemand && shadow !== undefined) {
    throw new SconceError("usage", "with --shadow all models stay loaded: remove --keep-alive and --max-loaded");
  }
  if ((isOnDemand || models.length > 1) && !isolate) {
    throw new SconceError("usage", "models are loaded in processes of their own: remove --no-isolate");
  }
  const names = models.map(({ name }) => name);
  const unknown = preload.find((name) => name !== "all" && name !== "none" && !names.includes(name));
  if (unknown !== undefined) {
    throw new SconceError("usage", `--preload names ${unknown}, and this server has ${names.join(", ")}`);
  }
}

function logSetUp({ reference, digest }: PackagedModel): void {
  log.info(`Setting up the model ${reference} (${digest})`);
}
