/** The model of a folder that is not packaged yet: its bundle, its declaration, its files. */
import { existsSync } from "node:fs";
import { join, parse, resolve } from "node:path";
import { areThere } from "../../engine/device.ts";
import { codedError, oneLine, SconceError } from "../../errors.ts";
import { log } from "../../log.ts";
import { bundleModel } from "../../model/bundle.ts";
import type { Model } from "../../model/define.ts";
import { loadModel } from "../../model/load.ts";
import type { TensorSpecs } from "../../model/tensor.ts";
import { wireSchema } from "../../model/wire-schema.ts";
import { processorNeeds, torchVersion } from "../../native/binding.ts";
import { decodeExample, parseExample, type SetUpOptions } from "../../serving/set-up.ts";
import { type LayerMediaType, type ModelConfig, mediaTypes, sconceApi, staysInside } from "../../store/manifest.ts";
import { exportedProgram } from "../plain/exported-program.ts";
import { runnableWeights } from "../plain/plain-model.ts";
import { dataUriOf } from "../predict/input-file.ts";
import { TimeLimit } from "./time-limit.ts";

export interface SourceOptions {
  readonly dir: string;
  /** In place of the model's own. */
  readonly weights?: string | undefined;
  /** Whether exported programs are compiled, which they are anyway where nothing else runs them. */
  readonly isCompiled?: boolean;
  /** npm packages that the bundle leaves out. */
  readonly externals?: readonly string[];
  /** Seconds that one call of the model's code may take. */
  readonly timeoutS: number;
}

export interface SourceModel extends Pick<SetUpOptions, "example" | "pathOf"> {
  /** The bundle's text. */
  readonly code: string;
  /** Absolute paths of what the bundle was made of. */
  readonly sources: readonly string[];
  /** The path of an exported program among the weights, before it is compiled. */
  readonly programOf: (name: string) => string | undefined;
  /** The model's examples with their files as data URIs; the first is `example`. */
  readonly examples: readonly unknown[];
  /** Each of its functions has the time limit. */
  readonly model: Model;
  /** Those that it declares, and what each is. */
  readonly files: ReadonlyMap<string, LayerMediaType>;
}

/**
 * Bundles and loads a model's code, and does a task with it.
 * @throws SconceError `model_invalid`, or what the task throws
 */
export async function withSource<T>(
  { dir, weights: given, isCompiled = false, externals, timeoutS }: SourceOptions,
  task: (source: SourceModel) => Promise<T>,
): Promise<T> {
  const weights = given === undefined ? undefined : resolve(given);
  const { code, native, sources } = await bundleModel(dir, externals);
  return elsewhere(async () => {
    using limit = new TimeLimit(timeoutS * 1000);
    const model = limit.model(await limit.call("the model's code", () => loadModel(code, "build")));
    const examples = await Promise.all(model.examples.map((example) => resolveExample(model, example, dir)));
    const [example] = examples;
    const files = filesOf(model);
    const pathOf = await pathsIn(dir, model, { weights, isCompiled });
    for (const name of files.keys()) requireFile(dir, name);
    // Awaited here: the limit is on for as long as the task runs.
    const programOf = (name: string) => exportedProgram(weights ?? join(dir, name));
    return await task({ code, sources, model, example, examples, files, pathOf, programOf });
  }).catch((error: unknown) => {
    throw native.length === 0 ? error : lacking(native, codedError(error));
  });
}

/** What the operator would have to ask for here; undefined where the model's own device will do. */
export function deviceHere({ settings: { device } }: Model): string | undefined {
  if (device === undefined || areThere(device)) return undefined;
  log.warn(`The model declares the device ${device}, which is not here: it is tried on another`);
  return "auto";
}

/** What is known of the model without loading it. */
export function configOf({ model, examples, pathOf }: Pick<SourceModel, "model" | "examples" | "pathOf">): ModelConfig {
  const cpuCapability = compiledFor(Object.values(model.weights).map(pathOf));
  return {
    ...declaredConfig({ model, examples }),
    torchVersion: torchVersion(),
    ...(cpuCapability === undefined ? {} : { cpuCapability }),
  };
}

/** Without what takes libtorch to know. */
export function declaredConfig({ model, examples }: Pick<SourceModel, "model" | "examples">): ModelConfig {
  const [example, ...more] = examples;
  return {
    sconceApi,
    name: model.name,
    description: model.description,
    inputSchema: wireSchema(model.input, "input"),
    outputSchema: wireSchema(model.output, "output"),
    ...(model.demo === undefined ? {} : { demoOutputSchema: wireSchema(model.demo.output, "demo.output") }),
    inputs: named(model.tensors.inputs),
    outputs: named(model.tensors.outputs),
    batchSize: model.settings.batchSize ?? 1,
    torchVersion: "",
    ...(model.settings.device === undefined ? {} : { device: model.settings.device }),
    ...(example === undefined ? {} : { example }),
    ...(more.length === 0 ? {} : { examples: more }),
  };
}

/** All that one processor must have to run these weights. */
function compiledFor(paths: readonly string[]): string | undefined {
  const words = new Set(paths.flatMap((path) => processorNeeds(path)?.split(" ") ?? []));
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

/** The files that the model declares, and what each is; one that is declared twice is packaged once. */
function filesOf({ weights, operators, assets }: Model): ReadonlyMap<string, LayerMediaType> {
  return new Map([
    ...assets.map((name) => [name, mediaTypes.asset] as const),
    ...operators.map((name) => [name, mediaTypes.operators] as const),
    ...Object.values(weights).map((name) => [name, mediaTypes.weights] as const),
  ]);
}

/** Where the model's files lie; other weights stand in for the model's, under its name, as do those that are compiled. */
async function pathsIn(
  dir: string,
  model: Model,
  { weights: other, isCompiled = false }: Pick<SourceOptions, "weights" | "isCompiled">,
): Promise<(name: string) => string> {
  const own = Object.values(model.weights);
  if (other !== undefined && own.length > 1) {
    throw new SconceError("usage", `--weights stands in for one file, this model has ${own.length}`);
  }
  const paths = new Map<string, string>();
  for (const name of own) paths.set(name, await runnableWeights(other ?? join(dir, name), isCompiled));
  return (name) => paths.get(name) ?? join(dir, name);
}

/** What failed may well have failed for that. */
function lacking(native: readonly string[], { code, message }: SconceError): SconceError {
  const why = `the native code of ${native.join(" and ")} is not packaged: use a package without it, or let the weights do its work`;
  return new SconceError(code, `${oneLine(message, 200)}; ${why}`);
}

/** Does a task in a folder from which the author's packages are not found: what the bundle lacks it would lack wherever it is served. */
async function elsewhere<T>(task: () => Promise<T>): Promise<T> {
  const here = process.cwd();
  process.chdir(parse(here).root);
  try {
    return await task();
  } finally {
    process.chdir(here);
  }
}

/** An example with its files as data URIs: where a file field names a file of the model's folder. */
async function resolveExample(model: Model, declared: unknown, dir: string): Promise<unknown> {
  const example = structuredClone(declared);
  const parsed = parseExample(model, example);
  for (const { path } of parsed.error?.issues ?? []) await inlineFile(example, path, dir);
  decodeExample(model, example);
  return example;
}

/** Replaces a text that names a file by a data URI; the schema refused it, so it stands where a file field is. */
async function inlineFile(example: unknown, path: readonly PropertyKey[], dir: string): Promise<void> {
  const key = path.at(-1);
  const holder = path.slice(0, -1).reduce<unknown>((value, part) => member(value, part), example);
  if (key === undefined || typeof holder !== "object" || holder === null) return;
  const value = member(holder, key);
  if (typeof value !== "string" || !existsSync(join(dir, value))) return;
  Reflect.set(holder, key, dataUriOf(await Bun.file(join(dir, value)).bytes(), value));
}

function member(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}
