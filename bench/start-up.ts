/** From the command to ready, of `digits`: of `serve` as a user types it, and of one executable file. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { Child } from "./child.ts";
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, folderOfAll, storeEnv } from "./networks.ts";
import { compiled, listening } from "./targets.ts";

const MODEL = "digits";

export async function startUp({ repeats, canary }: CaseOptions): Promise<Measurement> {
  await buildModel(join(root, "examples", MODEL));
  const values: number[] = [];
  for (let i = 0; i < repeats; i++) {
    await canary.listen();
    values.push(await secondsToReady([join(root, "scripts", "sconce"), "serve", MODEL]));
  }
  return { subject: `serve ${MODEL}`, compared: "from the command to ready", unit: "s", goal: atMost(1.5), values };
}

/** The first time, when libtorch is unpacked, and later. */
export async function executableStart({ repeats, canary }: CaseOptions): Promise<Measurement[]> {
  await buildModel(join(root, "examples", MODEL));
  const path = await compiled(MODEL);
  const cache = join(folderOfAll, "executables", "cache");
  const [first, later]: [number[], number[]] = [[], []];
  for (let i = 0; i < repeats; i++) {
    await canary.listen();
    await rm(cache, { recursive: true, force: true });
    for (const values of [first, later]) values.push(await secondsToReady([path, "--cache-dir", cache]));
  }
  const shared = { subject: `${MODEL}, one executable file`, unit: "s" } as const;
  return [
    { ...shared, compared: "from the first start to ready", goal: atMost(4), values: first },
    { ...shared, compared: "from a later start to ready", goal: atMost(0.6), values: later },
  ];
}

async function secondsToReady(command: readonly string[]): Promise<number> {
  const begin = performance.now();
  await using child = new Child([...command, "--port", "0", "--host", "127.0.0.1"], { env: storeEnv });
  await listening(child);
  return (performance.now() - begin) / 1000;
}
