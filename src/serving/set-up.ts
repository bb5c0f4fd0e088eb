/** Sets a model up to run: its code, its weights on a device, the runs before the first real one. */
import { resolveDevices } from "../engine/device.ts";
import { type BatchObserver, type Engine, LocalEngine } from "../engine/engine.ts";
import { LatencyTarget } from "../engine/latency-target.ts";
import { openRunners } from "../engine/open-runners.ts";
import type { Runner } from "../engine/runner.ts";
import { warmUp } from "../engine/warm-up.ts";
import { messageOf, SconceError } from "../errors.ts";
import type { Fetcher } from "../fetching/fetcher.ts";
import type { Model, ModelSettings } from "../model/define.ts";
import { openGate } from "./gate.ts";
import { type Fetching, type FileCaps, ItemPipeline, type Tensors } from "./item-pipeline.ts";

export interface SetUpOptions {
  readonly model: Model;
  /** The path of a file that the model declares: in a folder that is being built, or in the store. */
  readonly pathOf: (name: string) => string;
  /** One input as it comes over the wire, its files as data URIs; undefined when the author declared none. */
  readonly example: unknown;
  /** What the operator asked for; the model's own settings stand for what is undefined. */
  readonly settings: { readonly [K in keyof ModelSettings]: ModelSettings[K] | undefined };
  readonly fetcher: Fetcher;
  readonly fileCaps?: FileCaps | undefined;
  readonly observer?: BatchObserver;
  /** Told of the most items of a batch when those asked for do not fit into the device's memory, now or later. */
  readonly onShrink?: (maxBatchSize: number) => void;
}

/** A model that is ready to run. */
export interface RunningModel {
  readonly engine: Engine;
  readonly pipeline: ItemPipeline;
  /** `cpu`, or one or more `cuda:N`. */
  readonly devices: readonly string[];
  readonly threads: number;
  /** Milliseconds of a forward pass, by batch size, measured at warm-up. */
  readonly forwardMs: ReadonlyMap<number, number>;
}

const { signal: noSignal } = new AbortController();
const fetching: Fetching = { signal: () => noSignal, gate: openGate };

/** @throws SconceError when the model's code, weights or example do not do what was declared */
export async function setUp(options: SetUpOptions): Promise<RunningModel> {
  const { model, settings, observer, onShrink } = options;
  const own = model.settings;
  const threads = settings.threads ?? own.threads;
  const targetMs = settings.latencyTargetMs ?? own.latencyTargetMs ?? Infinity;
  const maxBatchSize = settings.batchSize ?? own.batchSize ?? 1;
  const { runners, pipeline, item, devices } = await openModel({
    ...options,
    device: settings.device,
    threads: threads ?? 1,
    instances: settings.instances ?? own.instances ?? 1,
  });
  try {
    const { inputs, outputs } = model.tensors;
    // A GPU chooses kernels and grows its memory by size.
    const everySize = !devices.includes("cpu");
    const warm = await warmUp({ runners, inputs, item, maxBatchSize, threads, everySize });
    if (warm.maxBatchSize < maxBatchSize) onShrink?.(warm.maxBatchSize);
    const engine = new LocalEngine({
      runners,
      inputs,
      outputs,
      maxBatchSize: warm.maxBatchSize,
      maxQueueDelayMs: settings.maxQueueDelayMs ?? own.maxQueueDelayMs ?? 0,
      latencyTarget: targetMs === Infinity ? undefined : latencyTarget(targetMs, warm.forwardMs),
      ...(observer ? { observer } : {}),
      onShrink,
    });
    return { engine, pipeline, devices, threads: warm.threads, forwardMs: warm.forwardMs };
  } catch (error) {
    await Promise.all(runners.map((runner) => runner.dispose()));
    throw error;
  }
}

export interface OpenOptions extends Pick<SetUpOptions, "model" | "pathOf" | "example" | "fetcher" | "fileCaps"> {
  /** As the operator named it. */
  readonly device: string | undefined;
  readonly threads: number;
  readonly instances: number;
}

/** A model that is loaded; who opened it disposes of its runners. */
export interface OpenModel {
  readonly runners: readonly Runner[];
  readonly pipeline: ItemPipeline;
  /** The tensors of its example. */
  readonly item: Tensors | undefined;
  /** `cpu`, or one or more `cuda:N`. */
  readonly devices: readonly string[];
}

/** @throws SconceError as `setUp` */
export async function openModel(options: OpenOptions): Promise<OpenModel> {
  const { model, pathOf, example, fetcher, fileCaps, threads, instances } = options;
  const devices = resolveDevices({ operator: options.device, author: model.settings.device });
  const [opened, prepared] = await Promise.allSettled([
    openRunners({
      weights: Object.fromEntries(Object.entries(model.weights).map(([name, file]) => [name, pathOf(file)])),
      operators: model.operators.map(pathOf),
      predict: model.predict,
      ...model.tensors,
      devices,
      threads,
      instances,
    }),
    runSetup(model, pathOf),
  ]);
  if (opened.status === "rejected") throw opened.reason;
  const runners = opened.value;
  try {
    if (prepared.status === "rejected") throw prepared.reason;
    const pipeline = new ItemPipeline(model, fetcher, fileCaps);
    const item = example === undefined ? undefined : await exampleTensors(model, pipeline, example);
    return { runners, pipeline, item, devices };
  } catch (error) {
    await Promise.all(runners.map((runner) => runner.dispose()));
    throw error;
  }
}

/** @throws SconceError `target_unreachable` */
function latencyTarget(ms: number, forwardMs: ReadonlyMap<number, number>): LatencyTarget {
  const oneMs = forwardMs.get(1) ?? 0;
  if (oneMs > ms) {
    // Who comes while a batch runs waits for that one too.
    const fix = `set --latency-target to ${Math.ceil(2 * oneMs)} or more, or use a faster device`;
    throw new SconceError(
      "target_unreachable",
      `the latency target is ${ms} ms, but one item alone takes ${oneMs.toPrecision(2)} ms here; ${fix}`,
    );
  }
  const target = new LatencyTarget(ms);
  for (const [size, each] of forwardMs) target.ran(size, each);
  return target;
}

/**
 * Runs one input from its wire side to its wire side.
 * @returns the output as JSON text
 * @throws SconceError of whichever step failed
 */
export async function runOne({ engine, pipeline }: RunningModel, input: unknown): Promise<string> {
  const tensors = await pipeline.prepare(input, fetching);
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const sink = {
    dispatched() {},
    succeeded: (_: number, rows: Tensors) =>
      Promise.resolve()
        .then(() => pipeline.finish(rows, input))
        .then(resolve, reject),
    failed: (_: number, error: SconceError) => reject(error),
  };
  engine.submit(sink, 0, tensors);
  return pipeline.encode(await promise);
}

async function runSetup(model: Model, pathOf: (name: string) => string): Promise<void> {
  const asset = (name: string) => {
    if (model.assets.includes(name)) return Bun.file(pathOf(name));
    throw new SconceError("model_invalid", `the model's setup reads ${name}, which is not declared under assets`);
  };
  try {
    await model.setup({ asset });
  } catch (error) {
    if (error instanceof SconceError) throw error;
    throw new SconceError("model_invalid", `the model's setup failed: ${messageOf(error)}`, { cause: error });
  }
}

async function exampleTensors(model: Model, pipeline: ItemPipeline, example: unknown): Promise<Tensors> {
  return pipeline.prepare(decodeExample(model, example), fetching);
}

/** @throws SconceError `model_invalid` when the example does not fit the input */
export function decodeExample(model: Model, example: unknown): unknown {
  const decoded = model.input.safeParse(example);
  if (decoded.success) return decoded.data;
  const faults = decoded.error.issues.map((issue) => `${["example", ...issue.path].join(".")}: ${issue.message}`);
  throw new SconceError("model_invalid", `the model is declared wrongly: ${faults.join("; ")}`);
}
