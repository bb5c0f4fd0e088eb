/**
 * Serves packaged models: starts and supervises fronts and engine processes.
 */
import { codeOf, SconceError } from "../base/errors.ts";
import type { RestartCause } from "../base/labels.ts";
import { log } from "../base/log.ts";
import type { Reload } from "../http/admin.ts";
import { availableCores, freeMemory } from "../machine/control-groups.ts";
import { isLoopback } from "../machine/network/host-name.ts";
import { freePort } from "../machine/network/listener.ts";
import { makeRunFolder } from "../machine/processes/run-folder.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { ServeConfig } from "./config.ts";
import { EngineLoads } from "./engine-loads.ts";
import { type FrontRequest, Fronts } from "./fronts.ts";
import { ModelEngine } from "./model-engine.ts";
import { ModelTable, type ServedOptions } from "./model-table.ts";
import { type Place, PortLock } from "./port-lock.ts";
import { type ReloadLog, Reloads } from "./reloads.ts";
import { MAX_QUEUED_VALUE_BYTES } from "./serve-limits.ts";
import { ServerStores, storePath } from "./server-stores.ts";

export interface Server {
  /** URL of the server on this machine. */
  readonly url: URL;
  readonly adminUrl: URL | undefined;
  /** Refuses new predictions, finishes accepted ones, and closes. May be called twice. */
  stop(): Promise<void>;
  /** Replaces the builds whose references name other builds now. */
  reload(): Promise<Reload>;
}

export interface ServerOptions {
  /** The first model answers paths without a model name. */
  readonly models: readonly [ServedOptions, ...ServedOptions[]];
  readonly config: ServeConfig;
  /** Finds the builds that the references of the command line name now, for a reload; undefined if none can change. */
  readonly resolveAgain?: (() => Promise<readonly ServedOptions[]>) | undefined;
  readonly reloadLog?: ReloadLog;
  /** Verifies and unpacks the model and the libraries. By default they are loaded in place, unchecked. */
  readonly source?: Pick<ModelSource, "resolve" | "verify" | "unpackLibraries">;
}

/**
 * Opens the port, then sets up the models; resolves when the server is ready.
 * @throws SconceError `address_in_use`, or the error of a model's set-up
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config } = options;
  checkReplica(config);
  const count = frontsOf(config);
  await using opened = new AsyncDisposableStack();
  const front = await openFronts(options, count, opened);
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
  const { url, adminUrl, reload } = front;
  return { url, adminUrl, stop: () => (stopped ??= stop()), reload };
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

/** On 16 cores, 8 fronts answered 1.4 times as many tiny requests as 4. More processes were not measured. */
const MAX_DEFAULT_FRONTS = 8;

/**
 * The number of fronts (fronts): --fronts, else half of the cores, but 1 below 8 cores. Each has one JavaScript thread, and more threads that decode pictures.
 */
export function frontsOf({ fronts }: Pick<ServeConfig, "fronts">, cores = availableCores()): number {
  if (fronts !== undefined) return fronts;
  return cores < 8 ? 1 : Math.min(MAX_DEFAULT_FRONTS, Math.floor(cores / 2));
}

async function openFronts(options: ServerOptions, count: number, opened: AsyncDisposableStack): Promise<Server> {
  const { config, source } = options;
  const place = takePlace(config);
  const { port, older } = place;
  // Gets the lock of the port after the end of the server that this one replaces.
  const inherited = opened.use(new DisposableStack());
  if (place.lock !== undefined) inherited.use(place.lock);
  const folder = opened.use(makeRunFolder());
  // Rows of this name are those of this server while the server that it replaces still runs.
  const server = older === undefined ? "" : crypto.randomUUID();
  const table = new ModelTable();
  table.hasClaim = older === undefined;
  const onRequest = (request: FrontRequest) => {
    if ("reload" in request) return reloads.reload();
    const build = table.get(request.number);
    if (build === undefined) return undefined;
    return request.move === "unload" ? loads.unload(build) : loads.load(build, request.move === "load");
  };
  const models = options.models.length;
  let engines = 0;
  const fronts = new Fronts({ table, config, folder, count, port, models, server, onRequest });
  const engineOf = (served: ServedOptions, slot: number) => {
    const onChange = () => void fronts.publish();
    const onRestart = (cause: RestartCause) => fronts.counts[slot]?.metrics.engineRestarted(cause);
    const number = ++engines;
    return new ModelEngine({ served, config, source, folder, number, hasOthers: models > 1, onChange, onRestart });
  };
  const isQueued = config.queue !== undefined;
  for (const [slot, served] of options.models.entries()) {
    const store = isQueued ? undefined : storePath(served.name, config, models > 1);
    table.add({ served, slot, engine: engineOf(served, slot), counts: fronts.counts[slot]?.path ?? "", store });
  }
  const stores = opened.use(new ServerStores(table.builds));
  await stores.check(older !== undefined);
  for (const { label } of table.builds) log.info(`Setting up the model ${label}`);
  const loads = new EngineLoads({
    table,
    fronts,
    keepAliveMs: config.keepAlive === undefined || config.role === "front" ? undefined : 1000 * config.keepAlive,
    maxLoaded: config.maxLoaded,
    freeBytes: freeMemory,
  });
  const { resolveAgain, reloadLog = log } = options;
  const reloads = new Reloads({ table, fronts, isQueued, resolveAgain, engineOf, log: reloadLog });
  opened.defer(() => loads.stop());
  try {
    // Other servers run the predictions of a front.
    if (config.role === "front") for (const build of table.builds) build.state = "ready";
    const preloaded = loadsAtStart(config) ? table.builds.filter((build) => build.storeFault === undefined) : [];
    await Promise.all([loads.preload(preloaded), fronts.start()]);
  } catch (error) {
    await fronts.end();
    throw error;
  }
  if (older !== undefined) {
    const inherit = async () => {
      inherited.use(await replaceServer(older, { host: config.host, port }, stores.closing));
      await stores.lock();
      table.hasClaim = true;
      void fronts.publish();
      log.info("The earlier server has ended");
    };
    inherit().catch((error: unknown) => {
      if (!stores.closing.aborted) log.error(error);
    });
  }
  return { url: fronts.url, adminUrl: fronts.adminUrl, stop: () => fronts.stop(), reload: () => reloads.reload() };
}

/**
 * Locks the port for this server. With --take-over, another server may have it.
 * @returns `older`: process id of that server
 * @throws SconceError `address_in_use`
 */
function takePlace(config: ServeConfig): { port: number; lock?: PortLock; older?: number } {
  const { host, takeOver } = config;
  const { port } = config;
  // No other server is started on a port that is picked at random.
  if (port === 0) return { port: freePort(config) };
  const lock = PortLock.take({ host, port });
  if (typeof lock !== "number") {
    freePort(config);
    return { port, lock };
  }
  if (takeOver && lock !== 0) return { port, older: lock };
  throw new SconceError(
    "address_in_use",
    `port ${port} of ${host} is in use by another sconce server (process ${lock || "unknown"}); choose another with --port, or replace that server with --take-over`,
  );
}

/** Ends the server that has the port. Resolves with the lock of the port when that server has ended. */
async function replaceServer(pid: number, place: Place, signal: AbortSignal): Promise<PortLock> {
  log.info(`This server is ready, and process ${pid} ends`);
  try {
    process.kill(pid, "SIGTERM");
  } catch (error) {
    if (codeOf(error) !== "ESRCH") throw error;
  }
  return PortLock.takeLater(place, signal);
}

/**
 * Whether the server loads its models at its start. With --keep-alive or --max-loaded, their first predictions load
 * them. A front (--role front) loads none.
 */
function loadsAtStart({ keepAlive, maxLoaded, role }: ServeConfig): boolean {
  return role !== "front" && keepAlive === undefined && maxLoaded === undefined;
}
