/** `sconce serve [[HOST/]repo[:tag]]`: serves models over HTTP. Compiled executables run this command by default. */
import { closeSync, openSync } from "node:fs";
import { log } from "../../base/log.ts";
import type { Reload } from "../../http/admin.ts";
import { exitProcess } from "../../machine/processes/exit.ts";
import { isExecutable } from "../../machine/processes/program.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { fixedLimits, serveGroups, serveOptions } from "../../server/config.ts";
import { type Server, startServer } from "../../server/server.ts";
import { surviveStrayErrors } from "../../server/stray-errors.ts";
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
  const { port, host, corsOrigin, allowedHosts, apiKeys, ...others } = serveOptions;
  const ofFile =
    source.reference === undefined
      ? ""
      : "If MODEL is a weights file, the server first packages it, as `build --no-latest` does. The model gets the name of the file. ";
  return command({
    details: `The port opens when a front process has started. Until the model is ready, the server answers 503. GET /docs shows how to call the server. After SIGTERM or Ctrl-C, the server finishes accepted requests and exits. A second signal, at least a second later, ends the server at once. Byte counts accept k, m and g for KiB, MiB and GiB.

On SIGHUP the server looks up its models again. If a tag names another build now, the server starts this build beside the old one, and then answers with it. To replace a running server by another version of the program, start it with --take-over.

The file sconce.toml in the working folder, or the file of --config, has options under their long names, such as \`port = 8080\`. The line \`models = ["digits"]\` lists models. The line \`models = "FILE"\` stands for --models. Relative paths begin at the folder of the file.

${ofFile}For a model of a registry, the server first pulls the files that the store lacks. A front (--role front) pulls no weights. If the registry is unreachable, the server uses the copy in the store. ${credentialsHelp}`,
    example,
    groups: serveGroups,
    isServer: true,
    file: { name: "sconce.toml", positionals: "models" },
    options: {
      port,
      host,
      corsOrigin,
      allowedHosts,
      apiKeys,
      ...modelOptions(source),
      ...others,
    },
    positionals: [{ ...modelPositional(source), isVariadic: source.reference !== undefined }],
    async run({ options, positionals }) {
      const config = { ...options, ...fixedLimits };
      const find = () => servedList(source, positionals, config);
      const models = await find();
      // An executable unpacks its libraries while the port answers 503. The set-up of a checkout may fail, so it comes
      // before the port.
      if (!isExecutable) await source.unpackLibraries();
      surviveStrayErrors();
      let server: Server | undefined;
      const stop = async () => server?.stop();
      stopOnSignals(stop, async () => logReload(await server?.reload()));
      server = await startServer({ models, config, source, resolveAgain: find });
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
 * once. SIGHUP calls `reload`. Without `reload`, and in a terminal, which sends SIGHUP when the session ends, SIGHUP
 * acts as SIGTERM.
 */
export function stopOnSignals(stop: () => Promise<void>, reload?: () => Promise<void>): void {
  let stoppingSince: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (signal === "SIGHUP" && reload !== undefined && !hasTerminal()) {
      await reload();
      return;
    }
    if (stoppingSince !== undefined) {
      if (performance.now() - stoppingSince <= REPEAT_MS) return;
      exitProcess(130);
    }
    stoppingSince = performance.now();
    log.info(`Stopping (${signal}): finishing what was accepted`);
    await stop();
    log.info("Stopped");
    exitProcess(0);
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
}

/** Logs the result of a reload for SIGHUP, which has no answer. Failures are logged where they happen. */
function logReload(result: Reload | undefined): void {
  if (result === undefined) log.warn("No reload: the server is starting");
  else if ("refused" in result) log.warn(`No reload: ${result.refused}`);
  else if ("failed" in result) log.error(`The reload failed: ${result.failed}`);
  else if (result.switched.length === 0) log.info("The reload found no new build");
}

/** Whether this process has a terminal: then a SIGHUP may mean the end of the terminal session. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}
