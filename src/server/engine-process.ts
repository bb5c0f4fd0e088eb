/** The engine process: loads libtorch, opens the weights, and runs batches with inputs of all fronts. */
import { z } from "zod";
import { addToEachLine, LogFields, log } from "../base/log.ts";
import { milliseconds } from "../base/milliseconds.ts";
import { EngineServer } from "../engine/remote/engine-server.ts";
import type { Link } from "../machine/processes/link.ts";
import { openPackaged } from "../package/code/load.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { stampsSchema } from "../package/store/verification.ts";
import { type SetUpOptions, tearDown, type WarmModel, warmModel } from "../pipeline/set-up.ts";
import type { ServeConfig } from "./config.ts";
import { labelOf, modelStart, serverConfig } from "./messages.ts";
import { fetcherFor, maxPaddedBytesOf } from "./serve-limits.ts";
import { surviveStrayErrors } from "./stray-errors.ts";

const engineStart = modelStart.extend({
  config: serverConfig,
  /** Number of the engine process in log lines and in `ps`. */
  number: z.int(),
  /** Path of the Unix socket that this process listens on. */
  socket: z.string(),
  /** Stamps of the files whose digests the supervisor has checked, by digest; undefined in tests. */
  verified: stampsSchema.optional(),
});
export type EngineStart = z.infer<typeof engineStart>;

/** The code of an engine process. @param source finds the model and the libraries */
export async function runEngine(source: ModelSource, start: unknown, link: Link): Promise<void> {
  surviveStrayErrors();
  const { number, options, socket, verified, ...given } = engineStart.parse(start);
  const { reference, home } = given;
  const config = { ...given.config, ...options };
  addToEachLine(new LogFields({ model: labelOf(given), engine: number }));
  await source.prepareLibraries();
  const packaged = await source.resolve(reference, { home });
  if (verified !== undefined) await source.verify(packaged, verified);
  const model = await openPackaged(packaged, config.param);
  using fetcher = fetcherFor(config);
  const warm = await warmModel({
    ...packagedSetUp(packaged, config),
    model,
    fetcher,
    onShrink: logShrink,
  });
  const { runners, info, maxQueueDelayMs, latencyTarget } = warm;
  logFacts(warm);
  const server = new EngineServer({
    ...model.tensors,
    runners,
    maxBatchSize: info.maxBatchSize,
    maxPaddedBytes: maxPaddedBytesOf(config),
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
  await tearDown(model);
}

/** The set-up options of a packaged model with the operator's settings. */
function packagedSetUp(packaged: PackagedModel, config: ServeConfig) {
  return {
    pathOf: (name: string) => packaged.layer(name).path,
    example: packaged.config.example,
    // Parameters (`--param`) may change outputs, so only a server without parameters compares them with the build's.
    golden: config.param.length === 0 ? packaged.golden : undefined,
    settings: {
      batchSize: config.batchSize,
      maxQueueDelayMs: config.maxQueueDelay,
      latencyTargetMs: config.latencyTarget,
      device: config.device,
      instances: config.instances,
      threads: config.threads,
    },
  } satisfies Partial<SetUpOptions>;
}

/** Logs the devices, the settings and the times that the warm-up found. */
function logFacts({ runners, info, threads, forwardMs }: WarmModel): void {
  const { devices, instances, maxBatchSize } = info;
  const packedLayers = runners[0]?.packedLayers ?? 0;
  const cores = `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const copies = instances === 1 ? "" : `, ${instances} instances`;
  const layers = packedLayers === 0 ? "" : `, ${packedLayers} ${packedLayers === 1 ? "layer" : "layers"} packed`;
  const times = Array.from(forwardMs, ([size, ms]) => `${milliseconds(ms)} for ${size}`).join(", ");
  log.info(
    `Running on ${devices.join(", ")} with ${cores}${copies}${layers}, max batch size ${maxBatchSize}${times ? `; a forward pass takes ${times}` : ""}`,
  );
}

/** Logs a lower batch limit. The failed batches run again in smaller parts, so a warning is enough. */
function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: the limit is ${maxBatchSize} inputs for now; --batch-size ${maxBatchSize} sets it from the start`,
  );
}
