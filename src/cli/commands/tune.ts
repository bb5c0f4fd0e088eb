/**
 * `sconce tune [[HOST/]repo[:tag]]`: measures settings of a model on this machine and prints the best as options of
 * `serve`.
 */
import { availableParallelism } from "node:os";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { duration, option } from "../../base/option.ts";
import { batchSizeFor } from "../../engine/open-runners.ts";
import { bestOf, settingsToTry, type Tuned, type TunedSetting, tune as tuneRunners } from "../../engine/tuner.ts";
import { exampleOrZeros } from "../../engine/warm-up.ts";
import { openPackaged } from "../../package/code/load.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import type { PackagedModel } from "../../package/store/packaged-model.ts";
import { type ServeConfig, serveOptions } from "../../server/config.ts";
import { openModel } from "../../server/flow/set-up.ts";
import { fetcherFor } from "../../server/serve-limits.ts";
import { type Command, command } from "../command-line/command.ts";
import { formatTable } from "../command-line/table.ts";
import { modelOptions, modelPositional, namedModel } from "./named-model.ts";

export const tune = tuneCommand(
  modelStore,
  `sconce tune digits
sconce tune digits --latency-target 20 --threads 1`,
);

export function tuneCommand(source: ModelSource, example: string): Command {
  const { batchSize, device, instances, threads, packLayers, latencyTarget, verify } = serveOptions;
  const { fetchTimeout, allowPrivateUrls } = serveOptions;
  return command({
    details: `The command runs full batches of the model's example with different settings, and prints the fastest setting first. The last line has the simplest setting within 5 % of the fastest, as options of serve. LATENCY MS is the time of two batches: an input that just misses a batch waits for the end of this batch. With --latency-target, the last line has a setting that meets the target. The command does not vary settings that options give, does not measure preprocess and postprocess, and stores nothing.`,
    example,
    options: {
      ...source.libraryOptions,
      seconds: option({
        description: "Seconds to measure",
        default: 60,
        variable: "SCONCE_TUNE_SECONDS",
        ...duration("seconds", 0.1),
      }),
      batchSize,
      instances,
      threads,
      latencyTarget,
      device,
      packLayers,
      verify,
      ...modelOptions(source),
      fetchTimeout,
      allowPrivateUrls: { ...allowPrivateUrls, isAdvanced: true },
    },
    positionals: [modelPositional(source)],
    async run({ options, positionals: [given] }) {
      const packaged = await namedModel(source, given, { ...options, withoutWeights: false });
      if (options.verify) await source.verify(packaged);
      await source.prepareLibraries();
      await tuneModel(packaged, options);
    },
  });
}

/** Largest batch to try. A larger `batchSize` of the model replaces it. */
const DEFAULT_MAX_BATCH = 64;
const PROGRESS_MS = 5000;

type TuneConfig = { readonly seconds: number } & Pick<
  ServeConfig,
  | "batchSize"
  | "device"
  | "instances"
  | "threads"
  | "packLayers"
  | "latencyTarget"
  | "fetchTimeout"
  | "allowPrivateUrls"
>;

/**
 * Prints a table, and the options of the best setting as last line. Settings that options fix are not varied.
 * @throws SconceError when the model cannot be set up
 */
async function tuneModel(packaged: PackagedModel, config: TuneConfig): Promise<void> {
  log.info(`Setting up the model ${packaged.reference} (${packaged.digest})`);
  const model = await openPackaged(packaged);
  using fetcher = fetcherFor(config);
  const targetMs = config.latencyTarget ?? model.settings.latencyTargetMs ?? Infinity;
  const limits = {
    cores: availableParallelism(),
    maxBatchSize: Math.max(DEFAULT_MAX_BATCH, model.settings.batchSize ?? 1),
    fixed: { batchSize: config.batchSize, instances: config.instances, threads: config.threads },
  };
  const { runners, item, devices } = await openModel({
    model,
    pathOf: (name) => packaged.layer(name).path,
    example: packaged.config.example,
    device: config.device,
    threads: 1,
    instances: Math.max(...settingsToTry({ ...limits, isCpu: true }).map(({ instances }) => instances)),
    pack: config.packLayers,
    fetcher,
  });
  try {
    const maxBatchSize = Math.min(limits.maxBatchSize, runners[0]?.mostRows ?? Infinity);
    batchSizeFor(runners, config.batchSize ?? 1);
    const settings = settingsToTry({ ...limits, maxBatchSize, isCpu: devices.includes("cpu") });
    const one = exampleOrZeros(model.tensors.inputs, item);
    if (one === undefined) {
      throw new SconceError(
        "model_invalid",
        "sizes of the model's inputs are free: declare an example to tune it with",
      );
    }
    log.info(`Trying ${settings.length} settings on ${devices.join(", ")} for ${config.seconds} s`);
    const tuned = await tuneRunners({
      runners,
      item: one,
      settings,
      budgetMs: 1000 * config.seconds,
      onRound: progress(),
      onLeftOut: (setting, error) => log.warn(`${flagsOf(setting)} is skipped: ${messageOf(error)}`),
    });
    report(tuned, targetMs);
  } finally {
    await Promise.all(runners.map((runner) => runner.dispose()));
  }
}

function progress(): (round: number, best: Tuned) => void {
  let loggedAtMs = performance.now();
  return (round, best) => {
    if (performance.now() - loggedAtMs < PROGRESS_MS) return;
    loggedAtMs = performance.now();
    log.info(`Round ${round}: ${flagsOf(best)} leads with ${formatNumber(best.throughput)} items a second`);
  };
}

function report(tuned: readonly Tuned[], targetMs: number): void {
  const rows = tuned.map(({ batchSize, instances, threads, throughput, batchMs }) =>
    [batchSize, instances, threads, throughput, batchMs, 2 * batchMs].map(formatNumber),
  );
  console.log(formatTable(["BATCH SIZE", "INSTANCES", "THREADS", "ITEMS/S", "BATCH MS", "LATENCY MS"], rows));
  const inTime = tuned.filter(({ batchMs }) => 2 * batchMs <= targetMs);
  if (inTime.length === 0) log.warn(`No setting meets the target of ${targetMs} ms: the last line has the closest one`);
  const best = bestOf(inTime) ?? tuned.toSorted((a, b) => a.batchMs - b.batchMs)[0];
  if (best === undefined) throw new SconceError("out_of_memory", "not even one item fits into the device's memory");
  console.log(`\n${flagsOf(best)}`);
}

function flagsOf({ batchSize, instances, threads }: TunedSetting): string {
  return `--batch-size ${batchSize} --instances ${instances} --threads ${threads}`;
}

/** Three digits, which are as precise as the measurement. */
function formatNumber(value: number): string {
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);
}
