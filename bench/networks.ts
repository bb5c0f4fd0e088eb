/** The networks that are measured, as model folders in .sconce/bench: declarations of this folder, weights made by weights.py. */
import { copyFileSync, existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { state } from "../scripts/setup/step.ts";
import type { Model } from "../src/model/define.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import mlp from "./models/mlp.ts";
import tiny from "./models/tiny.ts";

export type NetworkName = "tiny" | "mlp";

/** A network that is built and ready to be served. */
export interface Network {
  readonly name: NetworkName;
  readonly folder: string;
  /** One request body a line, with one input each. */
  readonly bodies: string;
  readonly samples: Samples;
}

/** Inputs, and what PyTorch makes of them. */
export interface Samples {
  readonly inputs: number[][];
  readonly outputs: number[][];
}

export const networks: Readonly<Record<NetworkName, { readonly model: Model; readonly sizes: readonly number[] }>> = {
  tiny: { model: tiny, sizes: [4, 16, 3] },
  mlp: { model: mlp, sizes: [784, 2048, 2048, 10] },
};

const folderOfAll = join(state, "bench");
/** A store of its own: the user's is left alone. */
export const storeEnv = { SCONCE_HOME: join(folderOfAll, "store") } as const;
export const sconceCommand = [process.execPath, join(import.meta.dir, "sconce.ts")] as const;

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

export async function readSamples(folder: string): Promise<Samples> {
  return samplesSchema.parse(await Bun.file(filesOf(folder).samples).json());
}

export function weightsOf(folder: string): string {
  return filesOf(folder).weights;
}

/** Makes the weights, where they are not there yet, and builds the model into the benchmark's own store. */
export async function buildNetwork(name: NetworkName): Promise<Network> {
  const folder = join(folderOfAll, name);
  const files = filesOf(folder);
  const script = join(import.meta.dir, "weights.py");
  mkdirSync(folder, { recursive: true });
  if (!existsSync(files.samples) || statSync(files.samples).mtimeMs < statSync(script).mtimeMs) {
    rmSync(files.samples, { force: true });
    const { command, env } = python();
    await Child.run([command, script, folder, ...networks[name].sizes.map(String)], env);
  }
  copyFileSync(join(import.meta.dir, "models", `${name}.ts`), files.model);
  const samples = await readSamples(folder);
  await Bun.write(files.bodies, `${samples.inputs.map((x) => JSON.stringify([{ x }])).join("\n")}\n`);
  await buildModel(folder);
  return { name, folder, bodies: files.bodies, samples };
}

/** @param folder of a model */
export async function buildModel(folder: string): Promise<void> {
  await Child.run([...sconceCommand, "build", folder], storeEnv);
}

function filesOf(folder: string) {
  return {
    model: join(folder, "model.ts"),
    weights: join(folder, "weights.pt"),
    samples: join(folder, "samples.json"),
    bodies: join(folder, "bodies.txt"),
  };
}

const samplesSchema = z.object({ inputs: z.array(z.array(z.number())), outputs: z.array(z.array(z.number())) });
