import { existsSync, readdirSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { exitProcess } from "../../base/exit.ts";
import { log } from "../../base/log.ts";
import type { Positional } from "../../base/option.ts";
import { readModelsFrom } from "../../machine/files/location.ts";
import { thisProgram } from "../../machine/processes/program.ts";
import type { ModelSource } from "../../package/model-source.ts";
import { isRemote } from "../../package/registry/remote-reference.ts";
import type { PackagedModel } from "../../package/store/packaged-model.ts";
import { ModelStore } from "../../package/store/store.ts";
import { usage } from "../command-line/command.ts";
import { type GivenInput, inputOption, isFile } from "./plain/tensor-input.ts";
import { registryOptions } from "./registry/registry-options.ts";

export function modelOptions(source: ModelSource) {
  const plainHttp = { ...registryOptions.plainHttp, isAdvanced: true };
  // An executable packages no models, so it has no --input.
  return { ...(source.reference === undefined ? {} : { input: { ...inputOption, isAdvanced: true } }), plainHttp };
}

export function modelPositional({ reference }: ModelSource): Positional {
  const remote = "HOST[:PORT]/repo[:tag] or …@sha256:… (a model of a registry)";
  const folder = "the absolute path of a folder";
  return {
    name: "model",
    description:
      reference === undefined
        ? `${remote}; or ${folder} with a model store. Default: the model inside`
        : `repo[:tag] or repo@sha256:… (a model of the store; the default tag is latest); ${remote}; a weights file; or ${folder} with a model store, model.ts or weights. Default: the last build of this folder, else the only model of the store`,
    required: false,
  };
}

interface NamedModelOptions {
  readonly input?: readonly GivenInput[];
  readonly plainHttp: boolean;
  readonly withoutWeights: boolean;
}

/**
 * Finds the model that a command names: in a store, in a registry, or packaged from a folder or weights file.
 * @throws SconceError when the model cannot be found, pulled or packaged
 */
export async function namedModel(
  source: ModelSource,
  given: string | undefined,
  { input = [], plainHttp, withoutWeights }: NamedModelOptions,
): Promise<PackagedModel> {
  const path = pathToBuild(given);
  if (path !== undefined && source.reference === undefined) {
    throw usage(`${path} is not a model store, and this program packages no models`);
  }
  if (input.length > 0 && path === undefined) throw usage("--input is for a weights file");
  if (path !== undefined) return source.resolve(await buildPath(path, input), { weights: !withoutWeights });
  if (given === undefined || !isRemote(given)) return storedModel(source, given, { withoutWeights });
  const { pulledModel } = await import("./registry/registry-pull.ts");
  return pulledModel(new ModelStore(), given, { plainHttp, withoutWeights });
}

/**
 * Whether the reference is for a model store. Otherwise the model is packaged from a path, or pulled from a registry.
 * @throws SconceError for a folder without a model
 */
export function isStored(given: string): boolean {
  return pathToBuild(given) === undefined && !isRemote(given);
}

/** Finds a model in the model store, or in the store at an absolute path. @throws SconceError if the store lacks it */
export function storedModel(
  source: ModelSource,
  given: string | undefined,
  { withoutWeights }: Pick<NamedModelOptions, "withoutWeights">,
): Promise<PackagedModel> {
  const options = { weights: !withoutWeights };
  if (given !== undefined && isStore(given)) return modelIn(source, given, options);
  const needsName = given === undefined && source.reference !== undefined;
  return source.resolve(needsName ? new ModelStore().unnamed(process.cwd()) : given, options);
}

/** Name of the file that marks an OCI image layout, such as a model store. */
const storeFile = "oci-layout";

/** Finds the only model of a store in the given folder. */
function modelIn(source: ModelSource, folder: string, options: { readonly weights: boolean }): Promise<PackagedModel> {
  const store = new ModelStore(folder);
  const name = store.unnamed(folder, `name one with SCONCE_HOME=${folder}`);
  readModelsFrom(folder);
  return source.resolve(name, options);
}

function isStore(given: string): boolean {
  return isFolder(given) && existsSync(join(given, storeFile));
}

function isFolder(given: string): boolean {
  return isAbsolute(given) && (statSync(given, { throwIfNoEntry: false })?.isDirectory() ?? false);
}

/**
 * The path that `build` packages: a weights file, or a folder with model.ts. For a folder with only one weights file,
 * the path of this file. Undefined for a reference or a store.
 */
function pathToBuild(given: string | undefined): string | undefined {
  if (given === undefined || isStore(given)) return undefined;
  if (/[./]/.test(given) && isFile(given)) return given;
  if (!isFolder(given)) return undefined;
  if (existsSync(join(given, "model.ts"))) return given;
  const weights = readdirSync(given).filter((name) => /\.(?:pt2|pt|pth)$/.test(name));
  const [only, ...others] = weights;
  if (only !== undefined && others.length === 0) return join(given, only);
  const found = only === undefined ? "no weights" : weights.join(", ");
  throw usage(`expected a model store, model.ts or one file of weights (.pt2, .pt) in ${given}, found ${found}`);
}

/**
 * Packages a model in a child process, so that a broken file crashes only the child. `latest` does not move, because
 * another model may have the same name as the weights file.
 * @returns the reference of the model
 */
async function buildPath(path: string, inputs: readonly GivenInput[]): Promise<string> {
  const given = inputs.flatMap(({ text }) => ["--input", text]);
  const child = Bun.spawn([...thisProgram(), "build", path, "--no-latest", ...given], {
    env: process.env,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const reference = (await child.stdout.text()).trim();
  // The child process has printed the error already.
  if ((await child.exited) !== 0) exitProcess(child.exitCode ?? 1);
  log.info(`Packaged ${path} as ${reference}`);
  return reference;
}
