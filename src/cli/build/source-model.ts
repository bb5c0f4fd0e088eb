/** A model folder before packaging: its bundle, declaration and files. */
import { existsSync } from "node:fs";
import { join, parse } from "node:path";
import { hasTensors, type Model, type ModelFacts, type OpenedModel, opened, withStated } from "../../author/define.ts";
import { withoutFunctions } from "../../author/openai.ts";
import type { TensorSpecs } from "../../author/tensor.ts";
import { wireSchema } from "../../author/wire-schema.ts";
import { hasCode, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { resolveDevices } from "../../engine/device.ts";
import { loadOperators, torchVersion } from "../../engine/native/binding.ts";
import { WeightsFile } from "../../engine/program/weights-file.ts";
import { bundleModel } from "../../package/code/bundle.ts";
import { loadModel } from "../../package/code/load.ts";
import { modelStore } from "../../package/model-source.ts";
import {
  type LayerMediaType,
  type ModelConfig,
  mediaTypes,
  sconceApi,
  staysInside,
} from "../../package/store/manifest.ts";
import { decodeExample, parseExample, type SetUpOptions, tearDown } from "../../pipeline/set-up.ts";
import { dataUriOf } from "../commands/predict/input-file.ts";
import { exportedProgram } from "./plain/exported-program.ts";
import { MAX_BATCH_SIZE, rowsOf, runnableWeights, statedInputs, statedTensors } from "./plain/plain-model.ts";
import { TimeLimit } from "./time-limit.ts";

export interface SourceOptions {
  readonly dir: string;
  /** Whether to compile exported programs even if they run uncompiled. */
  readonly isCompiled?: boolean;
  /** npm packages that the bundle leaves out. */
  readonly externals?: readonly string[];
  /** Time limit in seconds for one call of the model's code. */
  readonly timeoutS: number;
}

export interface SourceModel extends Pick<SetUpOptions, "example" | "pathOf"> {
  /** Text of the bundle. */
  readonly code: string;
  /** Absolute paths of the bundled source files. */
  readonly sources: readonly string[];
  /** Path of a declared weights file if it is an exported program, otherwise undefined. */
  readonly programOf: (name: string) => string | undefined;
  /** The model's examples, with data URIs in place of files. The first is `example`. */
  readonly examples: readonly unknown[];
  /** The model, with the time limit on the functions that a trial calls. */
  readonly model: OpenedModel;
  /**
   * The declared batch size; otherwise the largest that the weights state, up to 32. It is 1 if the weights state none.
   */
  readonly batchSize: number;
  readonly declaredBatchSize?: number | undefined;
  /** The declared files, with their media types. */
  readonly files: ReadonlyMap<string, LayerMediaType>;
}

/**
 * Bundles and loads a model's code, then runs a task with it.
 * @throws SconceError `model_invalid`, or the task's error
 */
export async function withSource<T>(
  { dir, isCompiled = false, externals, timeoutS }: SourceOptions,
  task: (source: SourceModel) => Promise<T>,
): Promise<T> {
  const { code, sources } = await bundleModel(dir, externals);
  return elsewhere(async () => {
    const limit = new TimeLimit(timeoutS * 1000);
    const declared = await limit.call("the model's code", () => loadModel(code, "build"));
    const examples = await Promise.all(declared.examples.map((example) => withFiles(declared, example, dir)));
    for (const example of examples) decodeExample(declared, example);
    const [example] = examples;
    const files = filesOf(declared);
    for (const name of files.keys()) requireFile(dir, name);
    await modelStore.prepareLibraries();
    const pathOf = await pathsIn(dir, declared, isCompiled);
    const { tensors, batchSize } = await statedFacts(declared, { pathOf, program: join(dir, onlyWeights(declared)) });
    const model = limit.model(opened({ ...declared, tensors }));
    const programOf = (name: string) => exportedProgram(join(dir, name));
    const { batchSize: declaredBatchSize } = declared.settings;
    const loaded = { code, sources, files, model, example, examples, batchSize, declaredBatchSize };
    try {
      return await task({ ...loaded, pathOf, programOf });
    } finally {
      await tearDown(model);
    }
  });
}

/**
 * Bundles and opens a model, without a time limit.
 * @param params values of the model's parameters
 * @throws SconceError `model_invalid`, or `usage` for a wrong parameter
 */
export async function openSource(
  dir: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<Pick<SourceModel, "model" | "pathOf">> {
  const { code } = await bundleModel(dir);
  const declared = await loadModel(code, "test");
  for (const name of filesOf(declared).keys()) requireFile(dir, name);
  const pathOf = await pathsIn(dir, declared);
  const { tensors, batchSize } = await statedFacts(declared, { pathOf, program: join(dir, onlyWeights(declared)) });
  return { model: opened(withStated(declared, { ...tensors, batchSize }), params), pathOf };
}

/** The weights file of a model with exactly one; empty for other models. */
function onlyWeights({ weights }: ModelFacts): string {
  const [first = "", ...others] = Object.values(weights);
  return others.length === 0 ? first : "";
}

/**
 * Tensors and batch size: declared, or stated by the weights.
 * @param program path of the weights before compilation
 * @returns the tensors, and the batch size for the model's config. An undeclared batch size stays undeclared in the
 * model, so that the trial accepts weights that run only one item
 */
async function statedFacts(
  model: Model,
  { pathOf, program }: Pick<SourceModel, "pathOf"> & { readonly program: string },
): Promise<Pick<ModelFacts, "tensors"> & Pick<SourceModel, "batchSize">> {
  const {
    tensors,
    settings: { batchSize },
  } = model;
  if (hasTensors(model) && (batchSize !== undefined || model.hasPredict)) return { tensors, batchSize: batchSize ?? 1 };
  const stated = statedInputs(program);
  if (stated === undefined) {
    if (hasTensors(model)) return { tensors, batchSize: 1 };
    const fix = "declare tensors, or export the network with torch.export";
    throw new SconceError(
      "model_invalid",
      `the model is declared wrongly: tensors: is missing, and ${onlyWeights(model) || "several weights files"} does not state them; ${fix}`,
    );
  }
  const weights = pathOf(onlyWeights(model));
  const maxRows = rowsOf(stated, weights);
  const rows = batchSize ?? Math.min(MAX_BATCH_SIZE, maxRows);
  if (hasTensors(model)) return { tensors, batchSize: rows };
  for (const name of model.operators) await loadOperators(pathOf(name));
  const { inputs, outputs } = await statedTensors(weights, { inputs: stated, maxRows });
  return { tensors: { inputs, outputs, parts: outputs }, batchSize: rows };
}

/** The devices for a trial: the devices of the declaration or, if this machine does not have them, another one. */
export async function trialDevices({ model, pathOf }: Pick<SourceModel, "model" | "pathOf">): Promise<string[]> {
  const { device } = model.settings;
  const weights = Object.values(model.weights).map(pathOf);
  try {
    return await resolveDevices({ author: device, weights });
  } catch (error) {
    if (!hasCode(error, "device_unavailable")) throw error;
    log.warn(`The model declares the device ${device}, which this machine does not have: it is tried on another`);
    return resolveDevices({ weights });
  }
}

type Declared = Pick<SourceModel, "model" | "batchSize" | "examples">;

/**
 * The config for a package: the declared config, the version of torch, and the processor features that compiled weights
 * need.
 */
export function configOf({ model, batchSize, examples, pathOf }: Declared & Pick<SourceModel, "pathOf">): ModelConfig {
  const cpuCapability = compiledFor(Object.values(model.weights).map(pathOf));
  return {
    ...declaredConfig({ model, batchSize, examples }),
    torchVersion: torchVersion(),
    ...(cpuCapability === undefined ? {} : { cpuCapability }),
  };
}

/** The part of the config that needs no libtorch. */
export function declaredConfig({ model, batchSize, examples }: Declared): ModelConfig {
  const [example, ...more] = examples;
  return {
    sconceApi,
    name: model.name,
    description: model.description,
    inputSchema: wireSchema(model.input, "input"),
    outputSchema: wireSchema(model.output, "output"),
    ...(model.part === undefined ? {} : { partSchema: wireSchema(model.part, "part") }),
    ...(model.demo === undefined ? {} : { demoOutputSchema: wireSchema(model.demo.output, "demo.output") }),
    ...(model.params === undefined ? {} : { paramsSchema: wireSchema(model.params, "params") }),
    inputs: named(model.tensors.inputs),
    outputs: named(model.tensors.outputs),
    batchSize,
    torchVersion: "",
    ...(model.settings.device === undefined ? {} : { device: model.settings.device }),
    ...(example === undefined ? {} : { example }),
    ...(more.length === 0 ? {} : { examples: more }),
    ...(model.openai === undefined ? {} : { openai: withoutFunctions(model.openai) }),
  };
}

/** Processor features that all weights together need; undefined if none. */
function compiledFor(paths: readonly string[]): string | undefined {
  const words = new Set(paths.flatMap((path) => new WeightsFile(path).processor?.split(" ") ?? []));
  return words.size === 0 ? undefined : [...words].join(" ");
}

function named(specs: TensorSpecs): ModelConfig["inputs"] {
  return Object.entries(specs).map(([name, { dtype, dims }]) => ({ name, dtype, dims: [...dims] }));
}

function requireFile(dir: string, name: string): void {
  if (!staysInside(name)) {
    const fix =
      'expected the path of a file below it, as "weights/net.pt2", without "./" and "../"; a link there may lead elsewhere';
    throw new SconceError(
      "model_invalid",
      `the model is declared wrongly: "${name}" is not written as a file of ${dir}: ${fix}`,
    );
  }
  if (existsSync(join(dir, name))) return;
  throw new SconceError("model_invalid", `the model is declared wrongly: ${name} is not a file of ${dir}`);
}

/** The declared files with their media types. Each file appears once, also if two fields declare it. */
function filesOf({ weights, operators, assets }: ModelFacts): ReadonlyMap<string, LayerMediaType> {
  return new Map([
    ...assets.map((name) => [name, mediaTypes.asset] as const),
    ...operators.map((name) => [name, mediaTypes.operators] as const),
    ...Object.values(weights).map((name) => [name, mediaTypes.weights] as const),
  ]);
}

/** Returns the function that finds the path of a declared file. Compiled weights keep the declared name. */
async function pathsIn(dir: string, model: ModelFacts, isCompiled = false): Promise<(name: string) => string> {
  const paths = new Map<string, string>();
  for (const name of Object.values(model.weights)) paths.set(name, await runnableWeights(join(dir, name), isCompiled));
  return (name) => paths.get(name) ?? join(dir, name);
}

/**
 * Runs a task in the root folder, where the author's node_modules are not found. So a package that the bundle lacks
 * fails now, as it would fail in serving.
 */
async function elsewhere<T>(task: () => Promise<T>): Promise<T> {
  const here = process.cwd();
  process.chdir(parse(here).root);
  try {
    return await task();
  } finally {
    process.chdir(here);
  }
}

/**
 * Copies an input and replaces the paths in its file fields by data URIs.
 * @param dir folder of relative paths
 * @param name name of the input, for messages
 * @throws SconceError `model_invalid` for a path without a file
 */
export async function withFiles(
  model: Pick<ModelFacts, "input">,
  declared: unknown,
  dir: string,
  name = "example",
): Promise<unknown> {
  const example = structuredClone(declared);
  const parsed = parseExample(model, example);
  for (const { path, message } of parsed.error?.issues ?? []) {
    const missing = await inlineFile(example, path, dir);
    if (missing === undefined || !NO_URL.test(message)) continue;
    throw new SconceError("model_invalid", `${[name, ...path].join(".")}: there is no ${missing}`);
  }
  return example;
}

/** Matches the message of a file field about a text without a scheme, such as a path. */
const NO_URL = /: it has no scheme; /;
/** Longest text that counts as a path. A longer one is the content of a file. */
const MOST_PATH = 255;

/**
 * Replaces the path of a file by a data URI. The schema has refused the text at this place, so the place is a file
 * field.
 * @returns the path if no file exists there, otherwise undefined
 */
async function inlineFile(example: unknown, path: readonly PropertyKey[], dir: string): Promise<string | undefined> {
  const key = path.at(-1);
  const holder = path.slice(0, -1).reduce<unknown>((value, part) => member(value, part), example);
  if (key === undefined || typeof holder !== "object" || holder === null) return undefined;
  const value = member(holder, key);
  if (typeof value !== "string" || value.length > MOST_PATH) return undefined;
  const file = join(dir, value);
  if (!existsSync(file)) return file;
  Reflect.set(holder, key, dataUriOf(await Bun.file(file).bytes(), value));
  return undefined;
}

function member(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}
