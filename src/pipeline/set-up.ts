/** Prepares a model: runs its `setup`, loads its weights on a device, and warms it up. */

import type { ModelFacts, OpenedModel } from "../author/define.ts";
import type { ModelSettings } from "../author/model-settings.ts";
import { asynchronousFix } from "../author/schema-faults.ts";
import * as z from "../author/z.ts";
import { messageWithLine } from "../base/author-line.ts";
import { codedError, MODEL_FAILED, messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { milliseconds } from "../base/milliseconds.ts";
import { withoutUnions } from "../base/schemas/zod-issues.ts";
import { slowStep } from "../base/slow-step.ts";
import { LatencyTarget } from "../engine/batching/latency-target.ts";
import { resolveDevices } from "../engine/device.ts";
import type { Engine } from "../engine/engine.ts";
import { loadFault } from "../engine/forward-fault.ts";
import { LocalEngine } from "../engine/local-engine.ts";
import { torchVersion } from "../engine/native/binding.ts";
import { batchSizeFor, openRunners } from "../engine/open-runners.ts";
import type { EngineInfo } from "../engine/remote/frame.ts";
import type { Runner } from "../engine/runner.ts";
import { warmUp } from "../engine/warm-up.ts";
import type { Fetcher } from "./fetcher.ts";
import { compareGolden, decodeGolden } from "./golden.ts";
import { ItemFlow } from "./item-flow.ts";
import type { ListItem } from "./item-list.ts";
import { ItemPipeline, type PartsReceiver, type Tensors } from "./item-pipeline.ts";
import { wholeText } from "./output-encoder.ts";
import { predictAll } from "./predict-all.ts";

export interface SetUpOptions {
  readonly model: OpenedModel;
  /** Returns the path of a declared file, in the model's folder or in the store. */
  readonly pathOf: (name: string) => string;
  /** The example as a client would send it, with data URIs for files; undefined without a declared example. */
  readonly example: unknown;
  /** The operator's settings. An undefined setting falls back to the model's setting. */
  readonly settings: { readonly [K in keyof ModelSettings]: ModelSettings[K] | undefined } & Pick<OpenOptions, "pack">;
  /** File with the outputs that the build computed for the example. The outputs here are compared with it. */
  readonly golden?: string | undefined;
  readonly fetcher: Fetcher;
  /** Called with a lower batch limit when a batch does not fit into the device's memory. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
}

/** A model after warm-up. The caller must dispose the runners. */
export interface WarmModel {
  readonly runners: readonly Runner[];
  readonly pipeline: ItemPipeline;
  readonly facts: EngineInfo;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget: LatencyTarget | undefined;
}

/** A model whose code runs in this process. The engine may run in another process. */
export interface RunningModel {
  readonly engine: Engine<ListItem>;
  readonly pipeline: ItemPipeline;
  /** What the warm-up found: batch limit, devices, times. Undefined before the first engine process is ready. */
  readonly facts: EngineInfo | undefined;
}

const { signal: noSignal } = new AbortController();

/**
 * Sets up a model with an engine in this process. @throws SconceError when the model's code, weights or example
 * contradict the declaration
 */
export async function setUp(options: SetUpOptions): Promise<RunningModel & Pick<WarmModel, "runners">> {
  const { runners, pipeline, facts, maxQueueDelayMs, latencyTarget } = await warmModel(options);
  const { maxBatchSize } = facts;
  const { onShrink } = options;
  const engine = new LocalEngine<ListItem>({
    ...options.model.tensors,
    runners,
    maxBatchSize,
    maxPaddedBytes: undefined,
    maxQueueDelayMs,
    latencyTarget,
    onShrink,
  });
  return { engine, runners, pipeline, facts };
}

/**
 * Opens a model, compares the outputs of its example with those of the build if given, and warms it up. @throws
 * SconceError as `setUp`
 */
export async function warmModel(options: SetUpOptions): Promise<WarmModel> {
  const { model, settings, onShrink } = options;
  const own = model.settings;
  const threads = settings.threads ?? own.threads;
  const targetMs = settings.latencyTargetMs ?? own.latencyTargetMs ?? Infinity;
  const instances = settings.instances ?? own.instances ?? 1;
  const { runners, pipeline, item, devices } = await openModel({
    ...options,
    device: settings.device,
    threads: threads ?? 1,
    instances,
    pack: settings.pack,
  });
  try {
    if (options.golden !== undefined) {
      const golden = decodeGolden(await Bun.file(options.golden).bytes());
      await slowStep("Comparing the example's outputs", compareGolden(runners, model.tensors.outputs, golden));
    }
    const maxBatchSize = batchSizeFor(runners, settings.batchSize ?? own.batchSize ?? 1);
    // A GPU chooses kernels and allocates memory for each batch size, so every size is warmed up.
    const everySize = !devices.includes("cpu");
    const warm = await warmUp({ runners, inputs: model.tensors.inputs, item, maxBatchSize, threads, everySize });
    if (warm.maxBatchSize < maxBatchSize) onShrink?.(warm.maxBatchSize);
    return {
      runners,
      pipeline,
      facts: {
        maxBatchSize: warm.maxBatchSize,
        devices,
        torch: torchVersion(),
        pid: process.pid,
        instances: runners.length,
        threads: warm.threads,
        packedLayers: runners[0]?.packedLayers ?? 0,
        forwardMs: [...warm.forwardMs],
      },
      maxQueueDelayMs: settings.maxQueueDelayMs ?? own.maxQueueDelayMs ?? 0,
      // A latency target has no effect on a model with `step`, because its items join a running batch.
      latencyTarget:
        targetMs === Infinity || typeof model.predict === "object"
          ? undefined
          : latencyTarget(targetMs, warm.forwardMs),
    };
  } catch (error) {
    await Promise.all(runners.map((runner) => runner.dispose()));
    throw error;
  }
}

/** Logs the devices, the settings and the times that the warm-up found. */
export function logFacts({ devices, threads, packedLayers, instances, maxBatchSize, forwardMs }: EngineInfo): void {
  const cores = `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const copies = instances === 1 ? "" : `, ${instances} instances`;
  const layers = packedLayers === 0 ? "" : `, ${packedLayers} ${packedLayers === 1 ? "layer" : "layers"} packed`;
  const times = forwardMs.map(([size, ms]) => `${milliseconds(ms)} for ${size}`).join(", ");
  log.info(
    `Running on ${devices.join(", ")} with ${cores}${copies}${layers}, max batch size ${maxBatchSize}${times ? `; a forward pass takes ${times}` : ""}`,
  );
}

export interface OpenOptions extends Pick<SetUpOptions, "model" | "pathOf" | "example" | "fetcher"> {
  /** The operator's setting. If undefined, the model's setting applies. */
  readonly device: string | undefined;
  readonly threads: number;
  readonly instances: number;
  /** Whether layers may rearrange their weights for the processor (default true). */
  readonly pack?: boolean | undefined;
}

/** A loaded model. The caller must dispose the runners. */
export interface OpenModel {
  readonly runners: readonly Runner[];
  readonly pipeline: ItemPipeline;
  /** The tensors of the model's example; undefined without one. */
  readonly item: Tensors | undefined;
  /** `cpu`, or one or more `cuda:N`. */
  readonly devices: readonly string[];
}

/**
 * Opens the weights and runs the model's `setup` at the same time, then prepares the example.
 * @throws SconceError when the model's code, weights or example contradict the declaration
 */
export async function openModel(options: OpenOptions): Promise<OpenModel> {
  const { model, pathOf, example, fetcher, threads, instances, pack } = options;
  const weights = Object.values(model.weights).map(pathOf);
  const devices = await resolveDevices({ operator: options.device, author: model.settings.device, weights });
  model.context.device = devices.join(",");
  const [opened, prepared] = await Promise.allSettled([
    openWeights(model, { pathOf, devices, threads, instances, pack }),
    runSetup(model, pathOf),
  ]);
  if (opened.status === "rejected") throw opened.reason;
  const runners = opened.value;
  try {
    if (prepared.status === "rejected") throw prepared.reason;
    const pipeline = new ItemPipeline(model, fetcher);
    const made =
      example === undefined
        ? undefined
        : // The operator's limits apply to files of clients, not to the author's example.
          await slowStep("Preparing the example", prepareExample(model, new ItemPipeline(model, fetcher), example));
    return { runners, pipeline, item: made?.tensors, devices };
  } catch (error) {
    await Promise.all(runners.map((runner) => runner.dispose()));
    throw error;
  }
}

/**
 * Opens the runners of a model's weights. @throws SconceError `weights_invalid` with a likely cause, or another error
 * of loading
 */
export function openWeights(
  { weights, operators, predict, tensors }: OpenedModel,
  {
    pathOf,
    ...where
  }: Pick<OpenOptions, "pathOf" | "threads" | "instances" | "pack"> & { readonly devices: readonly string[] },
): Promise<Runner[]> {
  const opening = openRunners({
    weights: Object.fromEntries(Object.entries(weights).map(([name, file]) => [name, pathOf(file)])),
    operators: operators.map(pathOf),
    predict,
    ...tensors,
    ...where,
  });
  return slowStep("Loading weights", opening).catch((error: unknown) => {
    throw loadFault(error);
  });
}

/**
 * Creates a latency target with the times of the warm-up. @throws SconceError `target_unreachable` if one item takes
 * longer
 */
function latencyTarget(ms: number, forwardMs: ReadonlyMap<number, number>): LatencyTarget {
  const oneMs = forwardMs.get(1) ?? 0;
  if (oneMs > ms) {
    // Twice the time, because a new item also waits for the running batch.
    const fix = `set --latency-target to ${Math.ceil(2 * oneMs)} or more, or use a faster device`;
    throw new SconceError(
      "target_unreachable",
      `the latency target is ${ms} ms, but one item alone takes ${milliseconds(oneMs)} here; ${fix}`,
    );
  }
  return new LatencyTarget(ms, forwardMs);
}

/**
 * Runs one input through the model.
 * @returns the output as JSON text
 * @throws SconceError of the failed step
 */
export async function predictOne(
  { engine, pipeline }: RunningModel,
  input: unknown,
  parts?: PartsReceiver,
): Promise<string> {
  const predicting = predictAll(new ItemFlow(engine, pipeline), [input], { signal: noSignal, parts });
  const [output] = await slowStep("Running the model", predicting);
  return wholeText(pipeline.encoder.encode(output));
}

/** Calls the model's `teardown`, and logs its error. No other hook may run later. */
export async function tearDown(model: OpenedModel): Promise<void> {
  try {
    await model.teardown();
  } catch (error) {
    log.warn(`The model's teardown failed: ${messageWithLine(codedError(error))}`);
  }
}

/**
 * Calls the model's `setup`.
 * @throws SconceError `model_invalid` with the message of its error
 */
export async function runSetup(model: OpenedModel, pathOf: (name: string) => string): Promise<void> {
  const asset = (name: string) => {
    if (model.assets.includes(name)) return Bun.file(pathOf(name));
    throw new SconceError("model_invalid", `the model's setup reads ${name}, which is not declared under assets`);
  };
  try {
    await slowStep(
      "Running the model's setup",
      Promise.try(() => model.setup({ asset })),
    );
  } catch (error) {
    if (error instanceof SconceError) throw error;
    const clientMessage = `${MODEL_FAILED} in setup`;
    throw new SconceError("model_invalid", `the model's setup failed: ${messageOf(error)}`, {
      cause: error,
      clientMessage,
    });
  }
}

export interface PreparedExample {
  /** The decoded input, whose files have their content. */
  readonly input: unknown;
  readonly tensors: Tensors;
}

/** Decodes the model's example, fetches its files, and makes its tensors with `preprocess`. */
export async function prepareExample(
  model: Pick<ModelFacts, "input">,
  pipeline: ItemPipeline,
  example: unknown,
): Promise<PreparedExample> {
  const input = decodeExample(model, example);
  return { input, tensors: await prepareInput(pipeline, input) };
}

/** Fetches the remote files of a decoded input, and calls `preprocess`. */
export async function prepareInput(pipeline: ItemPipeline, input: unknown): Promise<Tensors> {
  const remote = pipeline.remoteFilesOf(input);
  await Promise.all(remote.map(async (file) => file.fill(await pipeline.fetch(file, noSignal))));
  return pipeline.prepare(input, { signal: noSignal });
}

/** Decodes the model's example. @throws SconceError `model_invalid` when it does not fit the schema of the input */
export function decodeExample(model: Pick<ModelFacts, "input">, example: unknown): unknown {
  const decoded = parseExample(model, example);
  if (decoded.success) return decoded.data;
  const faults = withoutUnions(decoded.error.issues).map(
    (issue) => `${["example", ...issue.path].join(".")}: ${issue.message}`,
  );
  throw new SconceError("model_invalid", `the model is declared wrongly: ${faults.join("; ")}`);
}

/**
 * Parses the model's example. @throws SconceError `model_invalid` when the schema of the input has an asynchronous
 * refinement or transform
 */
export function parseExample({ input }: Pick<ModelFacts, "input">, example: unknown) {
  try {
    return input.safeParse(example);
  } catch (error) {
    if (!(error instanceof z.core.$ZodAsyncError)) throw error;
    throw new SconceError(
      "model_invalid",
      `the model is declared wrongly: input: a refinement or transform is asynchronous; ${asynchronousFix}`,
      { cause: error },
    );
  }
}
