/** What is measured, as model folders in .sconce/bench, with what each is asked; and the fully connected networks among it. */
import { copyFileSync, existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { root, state } from "../scripts/setup/step.ts";
import { z } from "../src/author/z.ts";
import { Child } from "./child.ts";
import mlp from "./models/mlp.ts";
import tiny from "./models/tiny.ts";

export type Input = Readonly<Record<string, unknown>>;

/** A model that is built and ready to be served, with what it is asked. */
export interface Network {
  readonly name: string;
  readonly folder: string;
  /** Inputs as they come over the wire. */
  readonly requests: readonly Input[];
  /** The same as the raw loop takes them: files as data URIs. */
  readonly inputs: readonly Input[];
  /** Some of the requests and the outputs that are right for them. */
  readonly samples: readonly { readonly input: Input; readonly output: Output }[];
  /** How far answers may be from those, as a share of them and one; that of float32, by which batches of other sizes differ, unless it is given. */
  readonly tolerance?: number;
}

export const outputSchema = z.record(z.string(), z.array(z.number()));
export type Output = z.infer<typeof outputSchema>;

export const connected = { tiny, mlp } as const;
export type ConnectedName = keyof typeof connected;

export const folderOfAll = join(state, "bench");
/** A store of its own: the user's is left alone. */
export const storeEnv = { SCONCE_HOME: join(folderOfAll, "store") } as const;
/** The command line without the set-up in front of it, which whoever starts a benchmark has done. */
export const sconceCommand = [process.execPath, join(root, "src", "main.ts")] as const;

const CHECKED = 8;
const samplesSchema = z.object({ inputs: z.array(z.array(z.number())), outputs: z.array(z.array(z.number())) });

/** The Python that the set-up found, as the start of a command, and what its environment needs. */
export function python(): { command: string; env: Record<string, string> } {
  const { python: found } = readLibtorch() ?? { python: null };
  if (found === null)
    throw new Error("the set-up found no Python with torch, which makes the weights: let python3 be one");
  const path = [found.path, process.env.PYTHONPATH].filter((part) => part).join(":");
  return { command: found.command, env: path === "" ? {} : { PYTHONPATH: path } };
}

/** Makes the weights, where they are not there yet, and builds the model into the benchmark's own store. */
export async function connectedNetwork(name: ConnectedName): Promise<Network> {
  const folder = await buildOwnModel(name);
  const { inputs, outputs } = await readSamples(folder);
  const requests = inputs.map((x) => ({ x }));
  const samples = requests.slice(0, CHECKED).map((input, i) => ({ input, output: { y: outputs[i] ?? [] } }));
  return { name, folder, requests, inputs: requests, samples };
}

/** What PyTorch made of the inputs of a fully connected network. */
export async function readSamples(folder: string): Promise<z.infer<typeof samplesSchema>> {
  return samplesSchema.parse(await Bun.file(join(folder, "samples.json")).json());
}

/**
 * Builds a model of models/.
 *
 * @returns its folder, with its weights, which are made where that is to be done
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

/** @param folder of a model */
export async function buildModel(folder: string): Promise<void> {
  await Child.run([...sconceCommand, "build", "--allow-random", folder], storeEnv);
}

/** Asked with bytes in place of lists of numbers: what reading numbers as text takes is then no part of what is measured. */
export async function mlpInBytes(): Promise<Network> {
  const network = await connectedNetwork("mlp");
  const { inputs } = await readSamples(network.folder);
  const requests = inputs.map((x) => ({
    x: `data:application/octet-stream;base64,${new Uint8Array(Float32Array.from(x).buffer).toBase64()}`,
  }));
  const samples = network.samples.map(({ output }, i) => ({ input: requests[i] ?? {}, output }));
  return { ...network, requests, samples };
}

/** `tiny` with outputs of as many numbers as an input asks for. */
export async function large(): Promise<Network> {
  return { ...(await connectedNetwork("tiny")), name: "large", folder: await buildOwnModel("large", "tiny") };
}

/** The same with a picture as output. Each is made anew, as a file of other bytes where the encoder is another one: there is nothing to compare with. */
export async function photo(): Promise<Network> {
  return {
    ...(await connectedNetwork("tiny")),
    name: "photo",
    folder: await buildOwnModel("photo", "tiny"),
    samples: [],
  };
}
