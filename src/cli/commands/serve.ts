/** `sconce serve [[HOST/]repo[:tag]]`: serves models over HTTP. It is the default command of compiled executables. */
import { surviveStrayErrors } from "../../author/stray-errors.ts";
import { messageOf } from "../../base/errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { log } from "../../base/log.ts";
import { askFirstProcess, hasTerminal, startAgain } from "../../machine/processes/start-again.ts";
import { notifyManager } from "../../machine/service-manager.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { fixedLimits, serveGroups, serveOptions } from "../../server/config.ts";
import { type Server, startServer } from "../../server/server.ts";
import type { StartedServer } from "../../server/server-control.ts";
import { type Command, command } from "../command-line/command.ts";
import { modelOptions, modelPositional } from "./named-model.ts";
import { credentialsHelp } from "./registry/registry-options.ts";
import { servedList } from "./served-list.ts";

export const serve = serveCommand(
  modelStore,
  `sconce serve digits --batch-size 16 --port 8080
sconce serve classifier.pt2
sconce serve registry.example.com/team/digits:v1`,
);

export function serveCommand(source: ModelSource, example: string): Command {
  const { port, host, corsOrigin, allowedHosts, apiKeys, verify, ...others } = serveOptions;
  const ofFile =
    source.reference === undefined
      ? ""
      : "If MODEL is a weights file, the server first packages it, as `build --no-latest` does. The model gets the name of the file. ";
  return command({
    details: `The port opens when a front process has started. Until the model is ready, the server answers 503. GET /docs shows how to call the server. After SIGTERM or Ctrl-C, the server finishes accepted requests and exits. A second signal, at least a second later, ends the server at once. Byte counts accept k, m and g for KiB, MiB and GiB.

To upgrade, start a new server on the port of the running server, as the same user. When the new server is ready, it takes over the port. The new server must serve every model of the running server, unless --replace is set. SIGHUP makes a running server start such a new server with the same command line.

The file sconce.toml in the working folder, or the file of --config, has options under their long names, such as \`port = 8080\`. The line \`models = ["digits"]\` lists models. The line \`models = "FILE"\` stands for --models. Relative paths begin at the folder of the file.

${ofFile}For a model of a registry, the server first pulls the files that the store lacks. A front (--role front) pulls no weights. If the registry is unreachable, the server uses the copy in the store. ${credentialsHelp}`,
    example,
    groups: serveGroups,
    isServer: true,
    // `excluded` has the options for libraries, because an executable needs them before it reads the file.
    file: { name: "sconce.toml", positionals: "models", excluded: Object.keys(source.libraryOptions) },
    options: {
      ...source.libraryOptions,
      port,
      host,
      corsOrigin,
      allowedHosts,
      apiKeys,
      verify,
      ...modelOptions(source),
      ...others,
    },
    positionals: [{ ...modelPositional(source), isVariadic: source.reference !== undefined }],
    async run({ options, positionals }) {
      const config = { ...options, ...fixedLimits };
      const models = await servedList(source, positionals, config);
      surviveStrayErrors();
      let server: Server | undefined;
      const newer = new NewerServers();
      let isRetired = false;
      const stop = async () => {
        // After an upgrade, systemd follows the newer server, so this process reports nothing.
        if (!isRetired) {
          notifyManager("STOPPING=1");
          newer.stop("SIGTERM");
        }
        await server?.stop();
      };
      stopOnSignals(stop, options.isolate, newer);
      const onRetire = () => {
        isRetired = true;
        process.kill(process.pid, "SIGTERM");
      };
      const isUpgradable = options.isolate && options.port !== 0;
      const startNewer = isUpgradable ? () => newer.next() : undefined;
      server = await startServer({ models, config, argv: process.argv.slice(2), source, onRetire, startNewer });
      if (isUpgradable) newer.allow();
      notifyManager(`MAINPID=${process.pid}`, "READY=1");
    },
  });
}

/**
 * Milliseconds in which a repeated signal is ignored. npm forwards a signal that the process group has received
 * already.
 */
const REPEAT_MS = 1000;

/**
 * Handles signals. The first SIGTERM or SIGINT finishes accepted requests; another after REPEAT_MS ends the process at
 * once. SIGHUP starts a newer server if upgrades are allowed. Otherwise, and in a terminal, which sends SIGHUP when the
 * session ends, SIGHUP acts as SIGTERM.
 */
export function stopOnSignals(stop: () => Promise<void>, isIsolated: boolean, newer?: NewerServers): void {
  let stoppingSince: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (signal === "SIGHUP" && newer?.isAllowed && !hasTerminal()) {
      newer.onHangup(() => newer.next());
      return;
    }
    if (stoppingSince !== undefined) {
      if (performance.now() - stoppingSince <= REPEAT_MS) return;
      // SIGKILL, because an orderly exit would wait for a forward pass that may never end.
      if (!isIsolated) process.kill(process.pid, "SIGKILL");
      exitProcess(130);
    }
    stoppingSince = performance.now();
    log.info(`Stopping (${signal}): finishing what was accepted`);
    await stop();
    log.info("Stopped");
    exitProcess(process.pid === 1 ? ((await newer?.follow()) ?? 0) : 0);
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
}

/** Starts newer servers on SIGHUP and `POST /reload`. A newer server finds this server by its port and takes over. */
class NewerServers {
  readonly #running = new Set<Bun.Subprocess>();
  isAllowed = false;

  /** Allows upgrades. They need a ready server, separate processes (`--isolate`), and a fixed port. */
  allow(): void {
    this.isAllowed = true;
  }

  /**
   * Starts a newer server, directly or through the first process of a container. @returns undefined while an earlier
   * one is starting
   */
  next(): StartedServer | undefined {
    if (askFirstProcess()) return {};
    const [earlier] = this.#running;
    if (earlier === undefined) return this.start();
    log.warn(`No newer server is started: process ${earlier.pid} is taking over already`);
    return undefined;
  }

  /** Starts a newer server for SIGHUP. A signal has no answer, so an error goes to the log. */
  onHangup(start: () => unknown): void {
    try {
      start();
    } catch (error) {
      log.error(`No newer server is started, and this one goes on: ${messageOf(error)}`);
    }
  }

  /** Starts the command line again. @throws Error of the system, for example if the program file was removed */
  start(): Bun.Subprocess {
    const server = startAgain();
    notifyManager("RELOADING=1", `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
    log.info(`Starting the command line again: process ${server.pid} takes over when it is ready`);
    this.#running.add(server);
    void server.exited.then(() => {
      this.#running.delete(server);
      // No newer server has taken over, so this server goes on.
      if (this.#running.size === 0) notifyManager("READY=1");
    });
    return server;
  }

  /** Sends the signal to every newer server that this process started. */
  stop(signal: "SIGTERM" | "SIGINT"): void {
    for (const server of this.#running) server.kill(signal);
  }

  /**
   * Passes signals to the newer servers until the last one ends. This process stays, because the end of a container's
   * first process would end them.
   * @returns the exit code of the last server; 0 without one
   */
  async follow(): Promise<number> {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.removeAllListeners(signal);
      process.on(signal, () => this.stop(signal));
    }
    process.removeAllListeners("SIGHUP");
    process.on("SIGHUP", () => this.onHangup(() => this.start()));
    let code = 0;
    while (this.#running.size > 0) code = await Promise.race([...this.#running].map(({ exited }) => exited));
    return code;
  }
}
