/** What is measured, as model folders in .sconce/bench; and the fully connected networks among it, whose weights weights.py makes. */
import { copyFileSync, existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { state } from "../scripts/setup/step.ts";
import type { Model } from "../src/model/define.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import mlp from "./models/mlp.ts";
import tiny from "./models/tiny.ts";

/** A model that is built and ready to be served, with what it is asked. */
export interface Network {
  readonly name: string;
  readonly folder: string;
  /** A file with one request body a line, with one input each. */
  readonly bodies: string;
  /** A file with the list of what the raw loop runs: inputs as they come over the wire, files as data URIs. */
  readonly inputs: string;
  readonly samples: Samples;
}

/** Inputs as they come over the wire, and the outputs that are right for them. */
export interface Samples {
  readonly inputs: readonly unknown[];
  readonly outputs: readonly Output[];
}

export const outputSchema = z.record(z.string(), z.array(z.number()));
export type Output = z.infer<typeof outputSchema>;

export type NetworkName = "tiny" | "mlp";

export const networks: Readonly<Record<NetworkName, { readonly model: Model; readonly sizes: readonly number[] }>> = {
  tiny: { model: tiny, sizes: [4, 16, 3] },
  mlp: { model: mlp, sizes: [784, 2048, 2048, 10] },
};

export const folderOfAll = join(state, "bench");
/** A store of its own: the user's is left alone. */
export const storeEnv = { SCONCE_HOME: join(folderOfAll, "store") } as const;
export const sconceCommand = [process.execPath, join(import.meta.dir, "sconce.ts")] as const;

const CHECKED = 8;

export function isNetworkName(name: string): name is NetworkName {
  return Object.hasOwn(networks, name);
}

/** The Python that the set-up found, as the start of a command, and what its environment needs. */
export function python(): { command: string; env: Record<string, string> } {
  const { python: found } = readLibtorch() ?? { python: null };
  if (found === null)
    throw new Error("the set-up found no Python with torch, which makes the weights: let python3 be one");
  const path = [found.path, process.env.PYTHONPATH].filter((part) => part).join(":");
  return { command: found.command, env: path === "" ? {} : { PYTHONPATH: path } };
}

/** What PyTorch made of the inputs of a fully connected network. */
export async function readSamples(folder: string): Promise<Samples> {
  const { inputs, outputs } = samplesSchema.parse(await Bun.file(join(folder, SAMPLES)).json());
  return { inputs: inputs.map((x) => ({ x })), outputs: outputs.map((y) => ({ y })) };
}

/** Makes the weights, where they are not there yet, and builds the model into the benchmark's own store. */
export async function buildNetwork(name: NetworkName): Promise<Network> {
  const folder = await madeBy("weights.py", { name, makes: SAMPLES, sizes: networks[name].sizes });
  const { inputs, outputs } = await readSamples(folder);
  const asked = await writeAsked(folder, { requests: inputs, inputs });
  await buildOwnModel(name);
  return {
    name,
    folder,
    ...asked,
    samples: { inputs: inputs.slice(0, CHECKED), outputs: outputs.slice(0, CHECKED) },
  };
}

/**
 * The folder of a model of models/, with what a script of this folder makes there. It is run again when it changed since.
 *
 * @param made.makes the file that it makes last
 */
export async function madeBy(
  script: string,
  { name, makes, sizes = [] }: { name: string; makes: string; sizes?: readonly number[] },
): Promise<string> {
  const folder = join(folderOfAll, name);
  const [file, program] = [join(folder, makes), join(import.meta.dir, script)];
  mkdirSync(folder, { recursive: true });
  if (!existsSync(file) || statSync(file).mtimeMs < statSync(program).mtimeMs) {
    rmSync(file, { force: true });
    const { command, env } = python();
    await Child.run([command, program, folder, ...sizes.map(String)], env);
  }
  return folder;
}

/** @param asked.requests one input each; @param asked.inputs what the raw loop takes */
export async function writeAsked(
  folder: string,
  { requests, inputs }: { requests: readonly unknown[]; inputs: readonly unknown[] },
): Promise<Pick<Network, "bodies" | "inputs">> {
  const files = { bodies: join(folder, "bodies.txt"), inputs: join(folder, "inputs.json") };
  await Bun.write(files.bodies, `${requests.map((input) => JSON.stringify([input])).join("\n")}\n`);
  await Bun.write(files.inputs, JSON.stringify(inputs));
  return files;
}

/** Builds a model of models/, whose weights are in its folder. */
export async function buildOwnModel(name: string): Promise<void> {
  const folder = join(folderOfAll, name);
  copyFileSync(join(import.meta.dir, "models", `${name}.ts`), join(folder, "model.ts"));
  await buildModel(folder);
}

/** @param folder of a model */
export async function buildModel(folder: string): Promise<void> {
  await Child.run([...sconceCommand, "build", "--allow-random", folder], storeEnv);
}

const SAMPLES = "samples.json";

const samplesSchema = z.object({ inputs: z.array(z.array(z.number())), outputs: z.array(z.array(z.number())) });
