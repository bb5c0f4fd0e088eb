/** The process that has libtorch: it opens the weights, and runs the batches of all fronts. */
import { z } from "zod";
import type { ModelSource } from "./commands/model-source.ts";
import type { ServeConfig } from "./config.ts";
import { EngineServer } from "./engine/remote/engine-server.ts";
import { logShrink } from "./engine-link.ts";
import { fetcherFor, fileCapsOf } from "./front.ts";
import { loadModel } from "./model/load.ts";
import { surviveStrayErrors } from "./model/stray-errors.ts";
import type { Role } from "./processes/link.ts";
import { logFacts, settingsOf, warmModel } from "./serving/set-up.ts";

/** What the supervisor gives. */
export const engineStart = z.object({
  /** The command line of the supervisor, which says where the libraries are. */
  argv: z.array(z.string()),
  /** `repository@sha256:…` */
  reference: z.string(),
  config: z.custom<ServeConfig>((value) => typeof value === "object" && value !== null),
  /** Path of the Unix socket to listen on. */
  socket: z.string(),
});
export type EngineStart = z.infer<typeof engineStart>;

/** @param sourceOf the places that a command line names */
export function engineRole(sourceOf: (argv: readonly string[]) => ModelSource): Role {
  return async (start, link) => {
    surviveStrayErrors();
    const { argv, reference, config, socket } = engineStart.parse(start);
    const source = sourceOf(argv);
    await source.prepareLibraries();
    const packaged = await source.resolve(reference);
    const model = await loadModel(await Bun.file(packaged.bundle.path).text(), packaged.digest);
    using fetcher = fetcherFor(config);
    const warm = await warmModel({
      model,
      pathOf: (name) => packaged.layer(name).path,
      example: packaged.config.example,
      settings: settingsOf(config),
      fetcher,
      fileCaps: fileCapsOf(config),
      onShrink: logShrink,
    });
    const { runners, facts, maxQueueDelayMs, latencyTarget } = warm;
    logFacts(facts);
    const { maxBatchSize, ...info } = facts;
    const server = new EngineServer({
      ...model.tensors,
      runners,
      maxBatchSize,
      maxQueueDelayMs,
      latencyTarget,
      onShrink: logShrink,
      info,
    });
    server.listen(socket);
    link.onAsk(() => server.runningForMs);
    link.ready();
    await link.stopping;
    await server.close();
  };
}
