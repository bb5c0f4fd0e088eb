/** Serves one packaged model. This process supervises the fronts and the engine; with --no-isolate it does all the work. */
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { libtorchEnv } from "../engine/libtorch-env.ts";
import { LoopGuard } from "../machine/processes/loop-guard.ts";
import { makeRunFolder, type RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { Stamps } from "../package/store/verification.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineEvents } from "./engine-link.ts";
import type { EngineStart } from "./engine-process.ts";
import type { Front } from "./front.ts";
import { Fronts } from "./fronts.ts";
import { ownerOf } from "./predictions/ids.ts";
import { openStore, storePath } from "./predictions/open-store.ts";

export type Server = Front;

export interface ServerOptions {
  readonly packaged: PackagedModel;
  readonly config: ServeConfig;
  /** The command line of this process, for its child processes. */
  readonly argv?: readonly string[];
  /** Verifies and unpacks the model and the libraries; by default they are loaded in place, unchecked. */
  readonly source?: Pick<ModelSource, "verify" | "unpackLibraries" | "prepareLibraries">;
}

/** Time limit for the exit of the engine process after its work is done. */
const STOP_MS = 5000;

/**
 * Opens the port, then sets the model up; resolves when the server is ready.
 * @throws SconceError `address_in_use`, or the error of the model's set-up
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config } = options;
  checkReplica(config);
  const count = frontsOf(config);
  if (count > 1 && !config.isolate) {
    throw new SconceError("usage", `--fronts ${count} needs an engine process: remove --no-isolate`);
  }
  await using opened = new AsyncDisposableStack();
  const front = config.isolate ? await openFronts(options, count, opened) : await openOne(options, opened);
  log.info("Reading inputs from the input queue");
  log.info("Starting the prediction service");
  log.info(`Listening on ${front.url.origin}`);
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await front.stop();
    await resources.disposeAsync();
  };
  return { url: front.url, stop: () => (stopped ??= stop()) };
}

/** @throws SconceError `usage` */
function checkReplica({ queue, role, store, bucket }: ServeConfig): void {
  if (bucket !== undefined && queue === undefined) {
    throw new SconceError("usage", "--bucket is for servers that share a queue: add --queue");
  }
  if (role !== "both" && queue === undefined) {
    throw new SconceError("usage", `--role ${role} is for servers that share a queue: add --queue`);
  }
  if (queue !== undefined && store !== undefined && store !== "memory") {
    throw new SconceError("usage", "with --queue, the queue stores predictions: remove --store");
  }
}

/** On 16 cores, 8 fronts answered 1.4 times as many tiny requests as 4 fronts. More fronts were not measured. */
const MAX_DEFAULT_FRONTS = 8;

/** How long a batch may run, and how long the engine process may be unresponsive. */
function stuckAfterMs({ batchTimeout, timeout }: ServeConfig): number {
  return 1000 * (batchTimeout ?? timeout);
}

/**
 * How long a front may be unresponsive. A blocking hook is interrupted sooner, except in native code and after an `await`.
 * Without isolation, a `predict` function may block the process as long as a batch may run.
 */
export function heldAfterMs(config: ServeConfig): number {
  const hookMs = 2000 * config.hookTimeout;
  return config.isolate ? hookMs : Math.max(hookMs, stuckAfterMs(config));
}

/** The best number of fronts for this machine. A front has one JavaScript thread, and other threads that decode pictures. */
export function frontsOf(
  { fronts, isolate }: Pick<ServeConfig, "fronts" | "isolate">,
  cores = availableParallelism(),
): number {
  if (fronts !== undefined) return fronts;
  return cores < 8 || !isolate ? 1 : Math.min(MAX_DEFAULT_FRONTS, Math.floor(cores / 2));
}

async function openOne({ packaged, config, source }: ServerOptions, opened: AsyncDisposableStack): Promise<Front> {
  // Dynamic, so that the supervisor of isolated servers does not load it.
  const { openFront } = await import("./front.ts");
  return openFront({
    packaged,
    config,
    owner: ownerOf(0),
    processes: () => ({ "front-1": process.pid }),
    onListening: () => logSetUp(packaged),
    // The set-up has no time limit.
    onSetUp: () => void opened.use(new LoopGuard(heldAfterMs(config))),
    run:
      config.role === "front"
        ? undefined
        : async (tools) => {
            if (config.verify) await source?.verify(packaged);
            await source?.prepareLibraries();
            return (await import("./engine-link.ts")).runHere(packaged, config, tools);
          },
    openStore: (memory) => openStore(storePath(packaged.repository, config), config, "main", memory),
  });
}

async function openFronts(options: ServerOptions, count: number, opened: AsyncDisposableStack): Promise<Front> {
  const { packaged, config, argv = [] } = options;
  const folder = opened.use(await makeRunFolder());
  const path = config.queue === undefined ? storePath(packaged.repository, config) : undefined;
  // Open until the server stops, so that no other server takes the file while fronts restart.
  const store = path === undefined ? undefined : await openStore(path, config, "main");
  if (store !== undefined) opened.defer(() => store.close());
  const fronts = new Fronts({ packaged, config, argv, folder, count, store: path, stuckAfterMs: heldAfterMs(config) });
  logSetUp(packaged);
  const engine = config.role === "front" ? undefined : engineProcess(options, { folder, events: fronts });
  opened.defer(() => engine?.stop());
  try {
    await Promise.all([fronts.start(), engine?.start()]);
  } catch (error) {
    await fronts.end();
    throw error;
  }
  return fronts;
}

function logSetUp({ reference, digest }: PackagedModel): void {
  log.info(`Setting up the model ${reference} (${digest})`);
}

/** @param place.name begins the names of its sockets; engines of one server need different names */
export function engineProcess(
  { packaged, config, argv = [], source }: ServerOptions,
  { folder, events, name = "engine" }: { folder: RunFolder; events: EngineEvents; name?: string },
) {
  let starts = 0;
  let socket = "";
  let verified: Stamps | undefined;
  const engine = new Supervised({
    role: "engine",
    start: (): EngineStart => {
      // Each start uses a new path, so a front never reaches an old process.
      socket = folder.join(`${name}-${starts++}.sock`);
      return { argv: [...argv], reference: packaged.byDigest, config, socket, verified };
    },
    env: libtorchEnv(),
    batchTimeoutMs: stuckAfterMs(config),
    onReady: () => events.ready(socket),
    onSilence: (isSilent) => events.silent(isSilent),
    onEnd: (reason) => {
      rmSync(socket, { force: true });
      events.ended(reason);
    },
  });
  return {
    start: async () => {
      // The supervisor does both: it removes the unpacked files after a signal, and restarts of the engine do not hash the weights.
      [verified] = await Promise.all([config.verify ? source?.verify(packaged) : undefined, source?.unpackLibraries()]);
      await engine.start();
    },
    stop: () => engine.stop(STOP_MS),
  };
}
