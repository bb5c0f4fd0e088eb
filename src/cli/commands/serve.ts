/** `sconce serve [[HOST/]repo[:tag]]`, also the default command of compiled executables. */
import { surviveStrayErrors } from "../../author/stray-errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { log } from "../../base/log.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { fixedLimits, serveGroups, serveOptions } from "../../server/config.ts";
import { type Server, startServer } from "../../server/server.ts";
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
      : "A weights file is packaged first, as `build --no-latest` does, and named after the file. ";
  return command({
    details: `The port opens at once; until the model is ready, the server answers 503. GET /docs shows how to call it. SIGTERM or Ctrl-C finishes accepted requests; a second signal, at least a second later, ends the server at once. Byte counts accept k, m and g for KiB, MiB and GiB.

A file sconce.toml in the working folder, or --config, has options under their long names (port = 8080), and models = ["digits"], or models = "FILE" for --models. A relative path in it begins at the folder of the file.

${ofFile}A model of a registry is pulled first, unless the store has it; a front (--role front) pulls no weights. If the registry is unreachable, the store's copy is served. ${credentialsHelp}`,
    example,
    groups: serveGroups,
    isServer: true,
    // An executable needs its library options before it reads the file.
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
    replaced: {
      tune: "sconce tune",
      "tune-seconds": "sconce tune --seconds",
    },
    positionals: [{ ...modelPositional(source), isVariadic: source.reference !== undefined }],
    async run({ options, positionals }) {
      const config = { ...options, ...fixedLimits };
      const models = await servedList(source, positionals, config);
      surviveStrayErrors();
      let server: Server | undefined;
      stopOnSignals(async () => server?.stop(), options.isolate);
      server = await startServer({ models, config, argv: process.argv.slice(2), source });
    },
  });
}

/** npm forwards a signal that the process group already received. A repeat within this time is ignored. */
const REPEAT_MS = 1000;

/** The first signal drains, the second ends at once. Before the server is ready there is nothing to drain. */
export function stopOnSignals(stop: () => Promise<void>, isIsolated: boolean): void {
  let stoppingSince: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (stoppingSince !== undefined) {
      if (performance.now() - stoppingSince <= REPEAT_MS) return;
      // An orderly exit would wait for a forward pass that may never end.
      if (!isIsolated) process.kill(process.pid, "SIGKILL");
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
