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
import { torchVersion } from "../engine/native/binding.ts";
import { batchSizeFor, type OpenOptions, openRunners } from "../engine/open-runners.ts";
import type { EngineInfo } from "../engine/remote/frame.ts";
import type { Runner } from "../engine/runner.ts";
import { warmUp } from "../engine/warm-up.ts";
import type { Fetcher } from "./fetcher.ts";
import { compareGolden, decodeGolden } from "./golden.ts";
import { ItemPipeline, type Tensors } from "./item-pipeline.ts";

export interface SetUpOptions {
  readonly model: OpenedModel;
  /** Returns the path of a declared file, in the model's folder or in the store. */
  readonly pathOf: (name: string) => string;
  /** The example as a client would send it, with data URIs for files; undefined without a declared example. */
  readonly example: unknown;
  /** The operator's settings. An undefined setting falls back to the model's setting. */
  readonly settings: { readonly [K in keyof ModelSettings]: ModelSettings[K] | undefined };
  /** File with the outputs that the build computed for the example. The outputs here are compared with it. */
  readonly golden?: string | undefined;
  readonly fetcher: Fetcher;
  /** Called with a lower batch limit when a batch does not fit into the device's memory. */
  readonly onShrink?: ((maxBatchSize: number) => void) | undefined;
}

/** A model after warm-up. The caller must dispose the runners. */
export interface WarmModel {
  readonly runners: readonly Runner[];
  readonly info: EngineInfo;
  readonly threads: number;
  /** Milliseconds of a forward pass by batch size. */
  readonly forwardMs: ReadonlyMap<number, number>;
  readonly maxQueueDelayMs: number;
  readonly latencyTarget: LatencyTarget | undefined;
}

export const { signal: noSignal } = new AbortController();

/**
 * Opens the weights and runs the model's `setup` at the same time. Then compares the example's outputs with the outputs
 * at build, if the model has them, and warms up the model.
 * @throws SconceError when the model's code, weights or example contradict the declaration
 */
export async function warmModel(options: SetUpOptions): Promise<WarmModel> {
  const { model, pathOf, example, settings, fetcher, onShrink } = options;
  const own = model.settings;
  const threads = settings.threads ?? own.threads;
  const targetMs = settings.latencyTargetMs ?? own.latencyTargetMs ?? Infinity;
  const instances = settings.instances ?? own.instances ?? 1;
  const weights = Object.values(model.weights).map(pathOf);
  const devices = await resolveDevices({ operator: settings.device, author: own.device, weights });
  model.context.device = devices.join(",");
  await using opened = new AsyncDisposableStack();
  const opening = openWeights(model, { pathOf, devices, threads: threads ?? 1, instances });
  const [loaded, prepared] = await Promise.allSettled([opening, runSetup(model, pathOf)]);
  if (loaded.status === "rejected") throw loaded.reason;
  const runners = loaded.value;
  for (const runner of runners) opened.defer(() => runner.dispose());
  if (prepared.status === "rejected") throw prepared.reason;
  // The operator's limits apply to files of clients, not to the author's example.
  const making = example === undefined ? undefined : prepareExample(model, new ItemPipeline(model, fetcher), example);
  const item = making && (await slowStep("Preparing the example", making)).tensors;
  if (options.golden !== undefined) {
    const golden = decodeGolden(await Bun.file(options.golden).bytes());
    await slowStep("Comparing the example's outputs", compareGolden(runners, model.tensors.outputs, golden));
  }
  const maxBatchSize = batchSizeFor(runners, settings.batchSize ?? own.batchSize ?? 1);
  // A GPU chooses kernels and allocates memory for each batch size, so every size is warmed up.
  const everySize = !devices.includes("cpu");
  const warm = await warmUp({ runners, inputs: model.tensors.inputs, item, maxBatchSize, threads, everySize });
  if (warm.maxBatchSize < maxBatchSize) onShrink?.(warm.maxBatchSize);
  // A latency target has no effect on a model with `step`, because its items join a running batch.
  const hasTarget = targetMs !== Infinity && typeof model.predict !== "object";
  const latencyTarget = hasTarget ? reachableTarget(targetMs, warm.forwardMs) : undefined;
  opened.move();
  return {
    runners,
    info: {
      maxBatchSize: warm.maxBatchSize,
      devices,
      torch: torchVersion(),
      pid: process.pid,
      instances: runners.length,
    },
    threads: warm.threads,
    forwardMs: warm.forwardMs,
    maxQueueDelayMs: settings.maxQueueDelayMs ?? own.maxQueueDelayMs ?? 0,
    latencyTarget,
  };
}

/** Opens the runners of a model's weights. @throws SconceError `weights_invalid`, or another error of loading */
export function openWeights(
  { weights, operators, predict, tensors }: OpenedModel,
  { pathOf, ...where }: Pick<SetUpOptions, "pathOf"> & Pick<OpenOptions, "devices" | "threads" | "instances" | "pack">,
): Promise<Runner[]> {
  const opening = openRunners({
    weights: Object.fromEntries(Object.entries(weights).map(([name, file]) => [name, pathOf(file)])),
    operators: operators.map(pathOf),
    predict,
    ...tensors,
    ...where,
  });
  return slowStep("Loading weights", opening);
}

/**
 * Creates a latency target with the times of the warm-up. @throws SconceError `target_unreachable` if one item takes
 * longer
 */
function reachableTarget(ms: number, forwardMs: ReadonlyMap<number, number>): LatencyTarget {
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
  return pipeline.prepare({ input, signal: noSignal });
}

/** Decodes the model's example. @throws SconceError `model_invalid` when it does not fit the schema of the input */
export function decodeExample(model: Pick<ModelFacts, "input">, example: unknown): unknown {
  const decoded = parseExample(model, example);
  if (decoded.success) return decoded.data;
  throw new SconceError("model_invalid", `the model is declared wrongly: ${faultsOf(decoded.error, "example")}`);
}

/** What an input's schema refuses, each fault with its field; `name` names the whole input. */
export function faultsOf({ issues }: z.core.$ZodError, ...name: string[]): string {
  const field = (path: readonly PropertyKey[]) => [...name, ...path].join(".") || "the input";
  return withoutUnions(issues)
    .map(({ path, message }) => `${field(path)}: ${message}`)
    .join("; ");
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
