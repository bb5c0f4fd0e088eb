/** Measures how long the model examples/digits needs until it is ready: with `serve`, and as one executable file. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { Child } from "./child.ts";
import type { CaseOptions } from "./comparison.ts";
import { buildModel, folderOfAll, storeEnv } from "./networks.ts";
import { atMost, type Measurement } from "./report.ts";
import { compiled, listening } from "./targets.ts";

const MODEL = "digits";

/**
 * Measures the start of `serve`, the first start of the executable file, which unpacks libtorch, and a later start of
 * the file.
 */
export async function startUp({ repeats, canary }: CaseOptions): Promise<Measurement[]> {
  await buildModel(join(root, "examples", MODEL));
  const file = [await compiled(MODEL)];
  const cache = { SCONCE_CACHE_DIR: join(folderOfAll, "executables", "cache") };
  const [serve, first, later]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < repeats; i++) {
    await canary.count();
    serve.push(await secondsToReady([join(root, "scripts", "sconce"), "serve", MODEL]));
    await rm(join(folderOfAll, "executables", "cache"), { recursive: true, force: true });
    for (const values of [first, later]) values.push(await secondsToReady(file, cache));
  }
  const ofFile = { subject: `${MODEL}, one executable file`, unit: "s" } as const;
  return [
    { subject: `serve ${MODEL}`, compared: "from the command to ready", unit: "s", goal: atMost(1.5), values: serve },
    { ...ofFile, compared: "from the first start to ready", goal: atMost(4), values: first },
    { ...ofFile, compared: "from a later start to ready", goal: atMost(0.6), values: later },
  ];
}

async function secondsToReady(command: readonly string[], env: Record<string, string> = {}): Promise<number> {
  const begin = performance.now();
  await using child = new Child([...command, "--port", "0", "--host", "127.0.0.1"], { env: { ...storeEnv, ...env } });
  await listening(child);
  return (performance.now() - begin) / 1000;
}
