/**
 * The models that the benchmark builds in .sconce/bench, with their inputs and expected outputs. This file has the
 * fully connected networks.
 */
import { copyFileSync, existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { root, state } from "../scripts/setup/step.ts";
import { z } from "../src/author/z.ts";
import { Child } from "./child.ts";
import mlp from "./models/mlp.ts";
import tiny from "./models/tiny.ts";

export type Input = Readonly<Record<string, unknown>>;

/** A built model, with inputs and the outputs that it should give. */
export interface Network {
  readonly name: string;
  readonly folder: string;
  /** Inputs as clients send them in JSON. */
  readonly requests: readonly Input[];
  /** The inputs of `requests` with data URIs in place of URLs, because the raw loop fetches nothing. */
  readonly inputs: readonly Input[];
  /** A few inputs with their expected outputs. */
  readonly samples: readonly { readonly input: Input; readonly output: Output }[];
  /**
   * Allowed error e: |given - expected| <= e * (1 + |given|). The default covers the rounding of float32 in batches
   * of different sizes.
   */
  readonly tolerance?: number;
}

export const outputSchema = z.record(z.string(), z.array(z.number()));
export type Output = z.infer<typeof outputSchema>;

export const connected = { tiny, mlp } as const;
export type ConnectedName = keyof typeof connected;

export const folderOfAll = join(state, "bench");
/** A model store for the benchmark alone: the user's store stays unchanged. */
export const storeEnv = { SCONCE_HOME: join(folderOfAll, "store") } as const;
/** Runs the command line from the sources, without set-up. */
export const sconceCommand = [process.execPath, join(root, "src", "main.ts")] as const;

const CHECKED = 8;
const samplesSchema = z.object({ inputs: z.array(z.array(z.number())), outputs: z.array(z.array(z.number())) });

/** The Python with torch that the set-up found, as a command and its environment variables. */
export function python(): { command: string; env: Record<string, string> } {
  const { python: found } = readLibtorch() ?? { python: null };
  if (found === null)
    throw new Error("the set-up found no Python with torch, which makes the weights: let python3 be one");
  const path = [found.path, process.env.PYTHONPATH].filter((part) => part).join(":");
  return { command: found.command, env: path === "" ? {} : { PYTHONPATH: path } };
}

/**
 * Builds a fully connected network into the benchmark's store, after exporting its weights if they are old or
 * missing.
 */
export async function connectedNetwork(name: ConnectedName): Promise<Network> {
  const folder = await buildOwnModel(name);
  const { inputs, outputs } = await readSamples(folder);
  const requests = inputs.map((x) => ({ x }));
  const samples = requests.slice(0, CHECKED).map((input, i) => ({ input, output: { y: outputs[i] ?? [] } }));
  return { name, folder, requests, inputs: requests, samples };
}

/** Inputs and PyTorch's outputs for a fully connected network. */
export async function readSamples(folder: string): Promise<z.infer<typeof samplesSchema>> {
  return samplesSchema.parse(await Bun.file(join(folder, "samples.json")).json());
}

/**
 * Builds a model of bench/models/, after exporting its weights if they are old or missing. @returns the model folder
 */
export async function buildOwnModel(name: string, weights = name): Promise<string> {
  const folder = join(folderOfAll, name);
  const [file, script] = [join(folder, "weights.pt"), join(import.meta.dir, "weights.py")];
  mkdirSync(folder, { recursive: true });
  if (!existsSync(file) || statSync(file).mtimeMs < statSync(script).mtimeMs) {
    const { command, env } = python();
    await Child.run([command, script, weights, folder], env);
  }
  copyFileSync(join(import.meta.dir, "models", `${name}.ts`), join(folder, "model.ts"));
  await buildModel(folder);
  return folder;
}

/** Builds a model into the benchmark's store. */
export async function buildModel(folder: string): Promise<void> {
  await Child.run([...sconceCommand, "build", "--allow-random", folder], storeEnv);
}

/** `mlp` with each input as bytes instead of a list of numbers, so parsing numbers costs nothing. */
export async function mlpInBytes(): Promise<Network> {
  const network = await connectedNetwork("mlp");
  const { inputs } = await readSamples(network.folder);
  const requests = inputs.map((x) => ({
    x: `data:application/octet-stream;base64,${new Uint8Array(Float32Array.from(x).buffer).toBase64()}`,
  }));
  const samples = network.samples.map(({ output }, i) => ({ input: requests[i] ?? {}, output }));
  return { ...network, requests, samples };
}

/** `tiny` with outputs of any length. */
export async function large(): Promise<Network> {
  return { ...(await connectedNetwork("tiny")), name: "large", folder: await buildOwnModel("large", "tiny") };
}

/** `tiny` with random pictures as outputs, which cannot be checked against samples. */
export async function photo(): Promise<Network> {
  return {
    ...(await connectedNetwork("tiny")),
    name: "photo",
    folder: await buildOwnModel("photo", "tiny"),
    samples: [],
  };
}
