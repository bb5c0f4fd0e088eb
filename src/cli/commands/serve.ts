/** `sconce serve [[HOST/]repo[:tag]]`, also the default command of compiled executables. */

import { surviveStrayErrors } from "../../author/stray-errors.ts";
import { SconceError } from "../../base/errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { log } from "../../base/log.ts";
import { thisProgram } from "../../machine/processes/program.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { isRemote } from "../../package/registry/remote-reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { serveGroups, serveOptions } from "../../server/config.ts";
import { type Server, startServer } from "../../server/server.ts";
import { type Command, command } from "../command-line/command.ts";
import { type GivenInput, inputOption, isFile } from "./plain/tensor-input.ts";
import { credentialsHelp, registryOptions } from "./registry/registry-options.ts";

export const serve = serveCommand(
  modelStore,
  `sconce serve digits --batch-size 16 --port 8080
sconce serve classifier.pt2
sconce serve registry.example.com/team/digits:v1`,
);

export function serveCommand(source: ModelSource, example: string): Command {
  const { port, host, verify, ...others } = serveOptions;
  return command({
    name: "serve",
    description: "Serve a model over HTTP",
    details: `The port opens at once; the address is logged when the model is ready. GET /docs shows how to call it. SIGTERM or Ctrl-C finishes accepted requests; a second one, at least a second later, ends at once. --tune measures the best settings instead of serving. Byte counts accept k, m and g for KiB, MiB and GiB.

${source.reference === undefined ? "" : "A weights file is packaged first, like build --no-latest, under a name derived from the file's. "}A model of a registry is pulled first, unless the store has it; --role front skips the weights. If the registry is unreachable, the store's copy is served. ${credentialsHelp}`,
    example,
    groups: serveGroups,
    options: {
      ...source.libraryOptions,
      port,
      host,
      verify,
      // An executable contains no `build`.
      ...(source.reference === undefined ? {} : { input: inputOption }),
      ...registryOptions,
      ...others,
    },
    positionals: [
      {
        name: "model",
        description: `${source.reference === undefined ? "by default the model inside" : "repo[:tag] or repo@sha256:…; no tag means latest, no name the last build of this folder, or the only model of the store"}; HOST[:PORT]/repo[:tag] or …@sha256:… of a registry${source.reference === undefined ? "" : "; or a weights file"}`,
        required: false,
      },
    ],
    async run({ options, positionals: [given] }) {
      const isBuilt = source.reference !== undefined && given !== undefined && /[./]/.test(given) && isFile(given);
      const { input = [] } = options;
      if (input.length > 0 && !isBuilt) throw new SconceError("usage", "--input is for a file of weights");
      const needsName = given === undefined && source.reference !== undefined;
      const named = needsName ? new ModelStore().unnamed(process.cwd()) : given;
      const reference = isBuilt ? await buildFile(given, input) : named;
      const withoutWeights = options.role === "front";
      const packaged =
        reference !== undefined && isRemote(reference)
          ? await (await import("./registry/registry-pull.ts")).pulledModel(new ModelStore(), reference, {
              plainHttp: options.plainHttp,
              withoutWeights,
            })
          : await source.resolve(reference, { weights: !withoutWeights });
      if (options.tune) {
        if (options.verify) await source.verify(packaged);
        await source.prepareLibraries();
        return (await import("./serve/tune.ts")).tuneModel(packaged, options);
      }
      surviveStrayErrors();
      let server: Server | undefined;
      stopOnSignals(async () => server?.stop(), options.isolate);
      server = await startServer({ packaged, config: options, argv: process.argv.slice(2), source });
    },
  });
}

/**
 * Packages a weights file in a child process: this process loads no libtorch, and a crash on a broken file stays in the
 * child. The model's name comes from the file. Another model may have that name, so `latest` does not move.
 * @returns the reference of the model
 */
async function buildFile(path: string, inputs: readonly GivenInput[]): Promise<string> {
  const given = inputs.flatMap(({ text }) => ["--input", text]);
  const child = Bun.spawn([...thisProgram(), "build", path, "--no-latest", ...given], {
    env: process.env,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const reference = (await child.stdout.text()).trim();
  // The child process has printed the error.
  if ((await child.exited) !== 0) exitProcess(child.exitCode ?? 1);
  log.info(`Packaged ${path} as ${reference}`);
  return reference;
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
