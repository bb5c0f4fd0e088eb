/** One executable file beside `sconce serve`: what it serves, and how soon it is ready. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { compileExecutable } from "../src/compile/executable.ts";
import { ModelStore } from "../src/store/store.ts";
import { atLeast, atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, buildNetwork, type NetworkName, storeEnv } from "./networks.ts";
import { refuseFailures, Target, WARM_UP_S } from "./target.ts";
import { spread } from "./turns.ts";
import { turnsUnderLoad } from "./under-load.ts";

const folder = join(root, ".sconce", "bench", "executables");

/** Throughput, of `serve`. */
export async function executableAgainstServe(
  name: NetworkName,
  options: CaseOptions & { readonly connections: number },
): Promise<Measurement> {
  const network = await buildNetwork(name);
  const path = await compiled(name);
  const { connections, seconds } = options;
  const { bodies } = network;
  await using served = await Target.served(name);
  await using file = await Target.start([path, "--port", "0", "--host", "127.0.0.1", "--threads", "1"]);
  await served.load({ bodies, connections, seconds: WARM_UP_S });
  const measured = await turnsUnderLoad(
    { network, served: file, options: { ...options, goal: atLeast(0.97) } },
    async () => refuseFailures(await served.load({ bodies, connections, seconds })),
  );
  return { ...measured, subject: `${measured.subject}, one executable file`, compared: "of `serve`" };
}

/** From the command to ready, of `digits`: the first time, when libtorch is unpacked, and later. */
export async function executableStart({ repeats, canary }: CaseOptions): Promise<Measurement[]> {
  const model = "digits";
  await buildModel(join(root, "examples", model));
  const path = await compiled(model);
  const cache = join(folder, "cache");
  const first: number[] = [];
  const later: number[] = [];
  for (let i = 0; i < repeats; i++) {
    await canary.listen();
    await rm(cache, { recursive: true, force: true });
    first.push(await secondsToReady(path, cache));
    later.push(await secondsToReady(path, cache));
  }
  const cores = canary.shares();
  const of = (compared: string, values: readonly number[], goalS: number): Measurement => ({
    subject: `${model}, one executable file`,
    compared,
    unit: "s",
    goal: atMost(goalS),
    reached: spread(values),
    values,
    behind: "",
    failed: 0,
    cores,
  });
  return [of("from the first start to ready", first, 4), of("from a later start to ready", later, 0.6)];
}

async function secondsToReady(path: string, cache: string): Promise<number> {
  const begin = performance.now();
  await using _ = await Target.start([path, "--port", "0", "--host", "127.0.0.1", "--cache-dir", cache]);
  return (performance.now() - begin) / 1000;
}

async function compiled(name: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const outfile = join(folder, name);
  const model = await new ModelStore(storeEnv.SCONCE_HOME).resolve(name);
  await compileExecutable({ outfile, model, libtorch: "embedded" });
  return outfile;
}
