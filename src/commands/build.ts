/** `sconce build [DIR]` */
import { existsSync } from "node:fs";
import { join, parse, resolve } from "node:path";
import { z } from "zod";
import { areThere } from "../engine/device.ts";
import { exampleOrZeros } from "../engine/warm-up.ts";
import { codedError, oneLine, SconceError } from "../errors.ts";
import { AddressGuard } from "../fetching/address-guard.ts";
import { Fetcher } from "../fetching/fetcher.ts";
import { log } from "../log.ts";
import { bundleModel } from "../model/bundle.ts";
import type { Model } from "../model/define.ts";
import { loadModel } from "../model/load.ts";
import type { TensorSpecs } from "../model/tensor.ts";
import { wireSchema } from "../model/wire-schema.ts";
import { processorNeeds, torchVersion } from "../native/binding.ts";
import { count, duration, flag, openOption, option } from "../option.ts";
import {
  decodeExample,
  exampleTensors,
  parseExample,
  predictOne,
  type SetUpOptions,
  setUp,
} from "../serving/set-up.ts";
import { unsteadyOutputs } from "../serving/trial.ts";
import { type LayerMediaType, type ModelConfig, mediaTypes, sconceApi } from "../store/manifest.ts";
import { checkRepository, checkTag } from "../store/reference.ts";
import { ModelStore } from "../store/store.ts";
import { command } from "./command.ts";
import { modelStore } from "./model-source.ts";
import { modelFolder } from "./plain/model-folder.ts";
import { runnableWeights } from "./plain/plain-model.ts";
import { inputOption } from "./plain/tensor-input.ts";
import { dataUriOf } from "./predict/input-file.ts";
import { Progress } from "./progress.ts";
import { TimeLimit } from "./try-out/time-limit.ts";

export const build = command({
  name: "build",
  description: "Package a model folder, or weights alone, as repo:tag, after trying it once",
  details: `Bundles model.ts with its npm packages, loads the weights, runs the example alone, again and in a batch, and copies all into the model store. Prints repo:tag last, where the tag is made of the content: the same content gets the same tag. The tag latest moves to it; with --weights only if the model has no other build, since the folder alone says what latest is.

Weights alone make a model that takes and gives arrays. An exported program (torch.export.save) and an AOTInductor package say which tensors they take; of TorchScript, which is older, --input says it.

An exported program runs as it is, on any processor or GPU. With --compile it becomes one native library, for this processor or the kind of GPU that it was exported on; that takes a Python with torch and a C++ compiler. What can only run compiled is compiled anyway.`,
  example: `sconce build examples/digits --tag v1
sconce build classifier.pt2 --name classifier
sconce build traced.pt --input x=float32[N,784]`,
  options: {
    name: openOption<string>({
      description: "Repository",
      valueHint: "repo",
      alias: "n",
      described: "the model's name, or the file's",
      parse: z.string().min(1, "must be a name"),
    }),
    tag: openOption<string>({
      description: "A tag beside the generated one and latest",
      valueHint: "tag",
      alias: "t",
      described: "none",
      parse: z.string().min(1, "must be a tag"),
    }),
    weights: openOption<string>({
      description: "Weights to package in place of the model's, e.g. compiled for a processor",
      valueHint: "file",
      alias: "w",
      described: "the model's",
      parse: z.string().min(1, "must be a file"),
    }),
    compile: option({
      description:
        "Compile exported programs with AOTInductor, for this processor, or the GPU that they were exported on",
      default: false,
      parse: flag,
    }),
    input: inputOption,
    batchSize: openOption<number>({
      description: "Most items that go through a model of weights alone together",
      described: "the most that the file allows, up to 32",
      // Where that of its name is set, it is meant for serve.
      variable: "SCONCE_MODEL_BATCH_SIZE",
      ...count(1, 65536),
    }),
    eject: openOption<string>({
      description: "Folder to write the model of weights alone into, to go on from",
      valueHint: "dir",
      described: "none",
      parse: z.string().min(1, "must be a folder"),
    }),
    allowRandom: option({
      description: "Package a model whose outputs differ from run to run, or with the other items of a batch",
      default: false,
      parse: flag,
    }),
    timeout: option({
      description: "Seconds that one call of the model's code may take",
      default: 300,
      variable: "SCONCE_BUILD_TIMEOUT",
      ...duration("seconds", 0.001),
    }),
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a file of weights; default: this folder", required: false },
  ],
  async run({ options, positionals: [given = "."] }) {
    // What is misspelled is said before the model is tried out, which can take long.
    if (options.name !== undefined) checkRepository(options.name);
    if (options.tag !== undefined) checkTag(options.tag);
    if (options.weights !== undefined && !existsSync(options.weights)) {
      throw new SconceError("usage", `--weights: ${options.weights} is not a file`);
    }
    await modelStore.prepareLibraries();
    using folder = await modelFolder(given, options);
    const dir = folder.path;
    const weights = options.weights === undefined ? undefined : resolve(options.weights);
    const { code, native } = await bundleModel(dir);
    const { model, example, files, pathOf } = await elsewhere(async () => {
      using limit = new TimeLimit(options.timeout * 1000);
      const model = limit.model(await limit.call("the model's code", () => loadModel(code, "build")));
      const example = await resolveExample(model, dir);
      const files = filesOf(model);
      const pathOf = await pathsIn(dir, model, { weights, isCompiled: options.compile });
      for (const name of files.keys()) requireFile(dir, name);
      await tryOut(model, { pathOf, example, isRandom: options.allowRandom });
      return { model, example, files, pathOf };
    }).catch((error: unknown) => {
      throw native.length === 0 ? error : lacking(native, codedError(error));
    });
    const repository = options.name ?? model.name;
    const progress = new Progress({ verb: "Copying" });
    const putting = new ModelStore().put({
      repository,
      tags: options.tag === undefined ? [] : [options.tag],
      isVariant: weights !== undefined,
      config: configOf(model, { example, pathOf }),
      layers: [
        { mediaType: mediaTypes.bundle, title: "model.js", source: new TextEncoder().encode(code) },
        ...[...files].map(([title, mediaType]) => ({ mediaType, title, source: pathOf(title) })),
      ],
      onProgress: (step) => progress.update(step),
    });
    const { tag } = await putting.finally(() => progress.end());
    console.log(`${repository}:${options.tag ?? tag}`);
  },
});

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

/** The files that the model declares, and what each is; one that is declared twice is packaged once. */
function filesOf({ weights, operators, assets }: Model): ReadonlyMap<string, LayerMediaType> {
  return new Map([
    ...assets.map((name) => [name, mediaTypes.asset] as const),
    ...operators.map((name) => [name, mediaTypes.operators] as const),
    ...Object.values(weights).map((name) => [name, mediaTypes.weights] as const),
  ]);
}

interface WeightsChoice {
  readonly weights: string | undefined;
  readonly isCompiled: boolean;
}

/** Where the model's files lie; other weights stand in for the model's, under its name, as do those that are compiled. */
async function pathsIn(dir: string, model: Model, { weights: other, isCompiled }: WeightsChoice) {
  const own = Object.values(model.weights);
  if (other !== undefined && own.length > 1) {
    throw new SconceError("usage", `--weights stands in for one file, this model has ${own.length}`);
  }
  const paths = new Map<string, string>();
  for (const name of own) paths.set(name, await runnableWeights(other ?? join(dir, name), isCompiled));
  return (name: string) => paths.get(name) ?? join(dir, name);
}

function configOf(model: Model, { example, pathOf }: Pick<SetUpOptions, "example" | "pathOf">): ModelConfig {
  const cpuCapability = compiledFor(Object.values(model.weights).map(pathOf));
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
    torchVersion: torchVersion(),
    ...(model.settings.device === undefined ? {} : { device: model.settings.device }),
    ...(cpuCapability === undefined ? {} : { cpuCapability }),
    ...(example === undefined ? {} : { example }),
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
  if (existsSync(join(dir, name))) return;
  throw new SconceError("model_invalid", `the model is declared wrongly: ${name} is not a file of ${dir}`);
}

interface TryOutOptions extends Pick<SetUpOptions, "example" | "pathOf"> {
  /** Outputs that differ are meant. */
  readonly isRandom: boolean;
}

/** Loads the weights and runs the example, so that a model that cannot be served is not packaged. */
async function tryOut(model: Model, { pathOf, example, isRandom }: TryOutOptions): Promise<void> {
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const { device } = model.settings;
  const isElsewhere = device !== undefined && !areThere(device);
  if (isElsewhere) log.warn(`The model declares the device ${device}, which is not here: it is tried on another`);
  const running = await setUp({
    model,
    pathOf,
    example,
    settings: {
      batchSize: undefined,
      maxQueueDelayMs: 0,
      latencyTargetMs: Infinity,
      device: isElsewhere ? "auto" : undefined,
      instances: 1,
      threads: undefined,
      maxInputs: undefined,
    },
    fetcher,
  });
  try {
    if (example !== undefined) {
      await predictOne(running, decodeExample(model, example));
      await requireSteady(model, { running, example, isRandom });
    } else log.warn("The model declares no example: it was built without a trial run");
  } finally {
    await running.engine.close();
  }
}

type Trying = Awaited<ReturnType<typeof setUp>>;

async function requireSteady(
  model: Model,
  { running, example, isRandom }: { running: Trying; example: unknown; isRandom: boolean },
): Promise<void> {
  const { runners, pipeline, facts } = running;
  const { inputs, outputs } = model.tensors;
  const made = async () => exampleOrZeros(inputs, await exampleTensors(model, pipeline, example));
  const [runner, item, again] = [runners[0], await made(), await made()];
  if (runner === undefined || item === undefined || again === undefined) return;
  const { maxBatchSize } = facts;
  const faults = await unsteadyOutputs(runner, { outputs, items: [item, again], maxBatchSize });
  if (faults.length === 0) return;
  if (isRandom) for (const fault of faults) log.warn(fault);
  else throw new SconceError("model_invalid", `${faults.join("; ")}; if that is meant, build with --allow-random`);
}

/** The example with its files as data URIs: where a file field names a file of the model's folder. */
async function resolveExample(model: Model, dir: string): Promise<unknown> {
  if (model.example === undefined) return undefined;
  const example = structuredClone(model.example);
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
