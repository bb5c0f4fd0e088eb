/** Serves one packaged model: this process supervises the fronts and the engine, or with --no-isolate does all the work. */
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
  /** Of this process, for those that it starts. */
  readonly argv?: readonly string[];
  /** Where the model, the addon and libtorch come from; by default they lie where they are loaded, and are not checked. */
  readonly source?: Pick<ModelSource, "verify" | "unpackLibraries" | "prepareLibraries">;
}

/** How long the engine process may take to end once its work is done. */
const STOP_MS = 5000;

/**
 * Opens the port, then sets the model up; resolves when it is ready.
 * @throws SconceError `address_in_use`, or of the model when it cannot be set up
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config } = options;
  checkReplica(config);
  const count = frontsOf(config);
  if (count > 1 && !config.isolate) {
    throw new SconceError("usage", `--fronts ${count} share an engine in a process of its own: leave --no-isolate out`);
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
    throw new SconceError("usage", "--bucket is for replicas, which share their queue: name it with --queue");
  }
  if (role !== "both" && queue === undefined) {
    throw new SconceError("usage", `--role ${role} shares its work with other replicas: name their queue with --queue`);
  }
  if (queue !== undefined && store !== undefined && store !== "memory") {
    throw new SconceError("usage", "with --queue predictions are kept there: leave --store out");
  }
}

/** On 16 cores they answered 1.4 times as many tiny requests as half of them; more were not measured. */
const MOST_FRONTS = 8;

/** How long a batch may run, and the engine process give no answer. */
function stuckAfterMs({ batchTimeout, timeout }: ServeConfig): number {
  return 1000 * (batchTimeout ?? timeout);
}

/**
 * How long a process that answers clients may give no answer. Hooks are interrupted sooner, except in native code and after an `await`.
 * Without isolation a `predict` may hold the process as long as a batch may run.
 */
export function heldAfterMs(config: ServeConfig): number {
  const hookMs = 2000 * config.hookTimeout;
  return config.isolate ? hookMs : Math.max(hookMs, stuckAfterMs(config));
}

/** How many fronts serve best on this machine; each is a thread of JavaScript, and has others beside it that decode pictures. */
export function frontsOf(
  { fronts, isolate }: Pick<ServeConfig, "fronts" | "isolate">,
  cores = availableParallelism(),
): number {
  if (fronts !== undefined) return fronts;
  return cores < 8 || !isolate ? 1 : Math.min(MOST_FRONTS, Math.floor(cores / 2));
}

async function openOne({ packaged, config, source }: ServerOptions, opened: AsyncDisposableStack): Promise<Front> {
  // The supervisor of isolated servers loads nothing of this.
  const { openFront } = await import("./front.ts");
  return openFront({
    packaged,
    config,
    owner: ownerOf(0),
    processes: () => ({ "front-1": process.pid }),
    onListening: () => logSetUp(packaged),
    // Not before: setting up takes as long as it takes.
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
  // Held for life: no other server takes the file, whichever fronts are there.
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

/** @param place.name begins the names of its sockets; of its own for each engine of a server */
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
      // Of its own for each: whoever connects to it meets that process or none.
      socket = folder.join(`${name}-${starts++}.sock`);
      return { argv: [...argv], reference: packaged.byDigest, config, socket, verified };
    },
    env: libtorchEnv(),
    batchTimeoutMs: stuckAfterMs(config),
    onReady: () => events.ready(socket),
    onEnd: (reason) => {
      rmSync(socket, { force: true });
      events.ended(reason);
    },
  });
  return {
    start: async () => {
      // Both here: what a signal leaves behind is this process's to remove, and each start of the engine need not hash the weights.
      [verified] = await Promise.all([config.verify ? source?.verify(packaged) : undefined, source?.unpackLibraries()]);
      await engine.start();
    },
    stop: () => engine.stop(STOP_MS),
  };
}
