import { exitProcess } from "../../base/exit.ts";
import { log } from "../../base/log.ts";
import type { Positional } from "../../base/option.ts";
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
  // An executable contains no `build`.
  return { ...(source.reference === undefined ? {} : { input: { ...inputOption, isAdvanced: true } }), plainHttp };
}

export function modelPositional({ reference }: ModelSource): Positional {
  return {
    name: "model",
    description: `${reference === undefined ? "by default the model inside" : "repo[:tag] or repo@sha256:…; no tag means latest, no name the last build of this folder, or the only model of the store"}; HOST[:PORT]/repo[:tag] or …@sha256:… of a registry${reference === undefined ? "" : "; or a weights file"}`,
    required: false,
  };
}

interface NamedModelOptions {
  readonly input?: readonly GivenInput[];
  readonly plainHttp: boolean;
  readonly withoutWeights: boolean;
}

/** @throws SconceError when the model cannot be found, pulled or packaged */
export async function namedModel(
  source: ModelSource,
  given: string | undefined,
  { input = [], plainHttp, withoutWeights }: NamedModelOptions,
): Promise<PackagedModel> {
  const isBuilt = source.reference !== undefined && given !== undefined && /[./]/.test(given) && isFile(given);
  if (input.length > 0 && !isBuilt) throw usage("--input is for a weights file");
  const needsName = given === undefined && source.reference !== undefined;
  const named = needsName ? new ModelStore().unnamed(process.cwd()) : given;
  const reference = isBuilt ? await buildFile(given, input) : named;
  if (reference === undefined || !isRemote(reference)) return source.resolve(reference, { weights: !withoutWeights });
  const { pulledModel } = await import("./registry/registry-pull.ts");
  return pulledModel(new ModelStore(), reference, { plainHttp, withoutWeights });
}

/**
 * Packages a weights file in a child process: this process loads no libtorch, and a crash on a broken file stays in the
 * child. The model's name comes from the file. Another model may have that name, so `latest` does not move.
 * @returns the reference of the model
 */
async function buildFile(path: string, inputs: readonly GivenInput[]): Promise<string> {
  const given = inputs.flatMap(({ text }) => ["--input", text]);
  const child = Bun.spawn([...thisProgram(), "build", path, "--no-latest", ...given], {
    env: process.env,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const reference = (await child.stdout.text()).trim();
  // The child process has printed the error.
  if ((await child.exited) !== 0) exitProcess(child.exitCode ?? 1);
  log.info(`Packaged ${path} as ${reference}`);
  return reference;
}
