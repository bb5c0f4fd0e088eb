/** Finds the model that a command names. */
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { log } from "../../base/log.ts";
import type { Positional } from "../../base/option.ts";
import { exitProcess } from "../../machine/processes/exit.ts";
import { thisProgram } from "../../machine/processes/program.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { modelFile } from "../../package/code/bundle.ts";
import type { ModelSource } from "../../package/model-source.ts";
import { isRemote } from "../../package/registry/remote-reference.ts";
import type { PackagedModel } from "../../package/store/packaged-model.ts";
import { latestTag } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { type GivenInput, inputOption, isFile } from "../build/plain/tensor-input.ts";
import { usage } from "../command-line/command.ts";
import { isPathText, pathGiven } from "../command-line/model-path.ts";

export function modelOptions(source: ModelSource) {
  // An executable packages no models, so it has no --input.
  return source.reference === undefined ? {} : { input: { ...inputOption, isAdvanced: true } };
}

export function modelPositional({ reference }: ModelSource): Positional {
  const remote = "HOST[:PORT]/repo[:tag] or …@sha256:… (a model of a registry)";
  const folder = "the path of a folder, absolute or with ./,";
  return {
    name: "model",
    description:
      reference === undefined
        ? `${remote}; or ${folder} with a model store. Default: the model inside`
        : `repo[:tag] or repo@sha256:… (a model of the store; the default tag is latest); ${remote}; a weights file; or ${folder} with a model store, model.ts or weights. Default: the most recent build`,
    required: false,
  };
}

/** The kinds of a MODEL argument. */
type GivenModel =
  | { readonly kind: "unnamed" }
  | { readonly kind: "stored" | "remote"; readonly reference: string }
  | { readonly kind: "store" | "folder" | "weights"; readonly path: string };

/**
 * Finds the kind of a MODEL argument. All commands call this function, so a text names the same model in each.
 * @throws SconceError `usage` for a path without a model, and for a text with two meanings
 */
function givenModel(given: string | undefined): GivenModel {
  if (given === undefined) return { kind: "unnamed" };
  const path = pathGiven(given);
  if (path === undefined) return { kind: isRemote(given) ? "remote" : "stored", reference: given };
  if (!isPathText(given) && new ModelStore().has(given)) {
    throw usage(`${given} is a file here and a model of the store: write ./${given} or ${given}:${latestTag}`);
  }
  if (isFile(path)) return { kind: "weights", path };
  const names = readFolder(path);
  const [code, weights] = [modelFile(path), names.filter((name) => /\.(?:pt2|pt|pth)$/.test(name))];
  const isStore = names.includes(storeFile);
  if (isStore && code !== undefined)
    throw usage(`${path} is a model store and has ${basename(code)}: move one of both`);
  if (isStore) return { kind: "store", path };
  if (code !== undefined) return { kind: "folder", path };
  const [only, ...others] = weights;
  if (only !== undefined && others.length === 0) return { kind: "weights", path: join(path, only) };
  const found = only === undefined ? "no weights" : weights.join(", ");
  throw usage(`expected a model store, model.ts or one file of weights (.pt2, .pt) in ${path}, found ${found}`);
}

function readFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    throw usage(`there is no ${path}; expected a model store, a model's folder or a file of weights`);
  }
}

interface NamedModelOptions {
  readonly input?: readonly GivenInput[] | undefined;
  readonly withoutWeights: boolean;
}

/**
 * Finds the model that a command names: in a store, in a registry, or packaged from a folder or weights file.
 * @throws SconceError when the model cannot be found, pulled or packaged
 */
export async function namedModel(
  source: ModelSource,
  text: string | undefined,
  { input = [], withoutWeights }: NamedModelOptions,
): Promise<PackagedModel> {
  const given = givenModel(text);
  if (input.length > 0 && given.kind !== "weights") throw usage("--input is for a weights file");
  if (given.kind === "remote") {
    const { pulledModel } = await import("./registry/registry-pull.ts");
    return pulledModel(new ModelStore(), given.reference, { withoutWeights });
  }
  if (given.kind !== "folder" && given.kind !== "weights") return foundIn(source, given, { withoutWeights });
  if (source.reference === undefined) {
    throw usage(`${given.path} is not a model store, and this program packages no models`);
  }
  await source.unpackLibraries();
  return source.resolve(await buildPath(given.path, input), { weights: !withoutWeights });
}

/**
 * Finds a model in the user's store, also under the name of a registry, or in the store at a path. Pulls and packages
 * nothing.
 * @throws SconceError `usage` for a model's folder or a weights file; `model_not_found`
 */
export async function storedModel(
  source: ModelSource,
  text: string | undefined,
  options: { readonly withoutWeights: boolean } = { withoutWeights: false },
): Promise<PackagedModel> {
  const given = givenModel(text);
  if (given.kind === "folder" || given.kind === "weights") {
    throw usage(`${given.path} is not packaged: ${programName} build ${given.path} does that`);
  }
  return foundIn(source, given, options);
}

/** Name of the file that marks an OCI image layout, such as a model store. */
const storeFile = "oci-layout";

async function foundIn(
  source: ModelSource,
  given: Exclude<GivenModel, { readonly kind: "folder" | "weights" }>,
  { withoutWeights }: { readonly withoutWeights: boolean },
): Promise<PackagedModel> {
  const weights = !withoutWeights;
  if ("reference" in given) return source.resolve(given.reference, { weights });
  return source.resolve(undefined, { weights, home: given.kind === "store" ? given.path : undefined });
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
