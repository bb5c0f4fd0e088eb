/** Requests of thousands of inputs: what an input of them costs, and what others feel of it. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildNetwork, type Network, type NetworkName, storeEnv } from "./networks.ts";
import { percentile } from "./percentile.ts";
import { ms, perSecond } from "./quantity.ts";
import { Target, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread } from "./turns.ts";

const FEW = 100;
const MANY = 10_000;
const QUEUE = 100_000;
const LARGE_BODY_BYTES = 60 * 2 ** 20;
/** Clients that ask for one prediction at a time beside the large requests, and how long they think in between. */
const OTHERS = 4;
const THINKING_MS = 2;

/** 10,000 inputs in one request, one request after the other. */
export async function manyInputs(options: CaseOptions): Promise<Measurement[]> {
  const { network, served } = await open("tiny");
  await using _ = served;
  const many = bodyOf(network, MANY);
  const cost = await costBesideFew({ network, served, options }, () => predict(served, many, MANY));
  const shared = { failed: 0, cores: options.canary.shares() };
  const { others, heldMs } = await felt(served, network, options.repeats, () => predict(served, many, MANY));
  const subject = "tiny, 10,000 inputs in a request";
  return [
    { ...shared, subject, compared: "time an input, over that of 100", unit: "", goal: atMost(1), ...cost },
    { ...shared, subject, compared: "event loop held", unit: "ms", goal: atMost(20), ...single(heldMs), behind: "" },
    { ...shared, subject, compared: "others' p99 meanwhile", unit: "ms", goal: atMost(50), ...others },
  ];
}

/** 100,000 inputs that wait at once. */
export async function longQueue(options: CaseOptions): Promise<Measurement> {
  const { network, served } = await open("tiny");
  await using _ = served;
  const body = bodyOf(network, MANY);
  const cost = await costBesideFew({ network, served, options }, async () => {
    const requests = Array.from({ length: QUEUE / MANY }, () => predict(served, body, MANY));
    return (await Promise.all(requests)).reduce((sum, each) => sum + each, 0);
  });
  const subject = "tiny, 100,000 inputs in the queue";
  const compared = "time an input, over that of 100";
  return { subject, compared, unit: "", goal: atMost(1), ...cost, failed: 0, cores: options.canary.shares() };
}

/** 60 MB of numbers in one request. */
export async function largeBody(options: CaseOptions): Promise<Measurement[]> {
  const { network, served } = await open("mlp", ["--max-inputs", "20000"]);
  await using _ = served;
  const count = Math.floor(LARGE_BODY_BYTES / (bodyOf(network, 100).length / 100));
  const body = bodyOf(network, count);
  const large = () => predict(served, body, count);
  await large();
  await options.canary.listen();
  const { others, heldMs } = await felt(served, network, options.repeats, large);
  await options.canary.listen();
  const shared = { subject: `mlp, ${count.toLocaleString("en")} inputs in 60 MB`, unit: "ms" as const, failed: 0 };
  const cores = options.canary.shares();
  return [
    { ...shared, compared: "event loop held", goal: atMost(50), ...single(heldMs), behind: "", cores },
    { ...shared, compared: "others' p99 meanwhile", goal: atMost(50), ...others, cores },
  ];
}

async function open(name: NetworkName, more: readonly string[] = []): Promise<{ network: Network; served: Target }> {
  const network = await buildNetwork(name);
  const script = join(import.meta.dir, "held-server.ts");
  const command = [process.execPath, script, name, "--port", "0", "--host", "127.0.0.1", "--threads", "1", ...more];
  const served = await Target.start(command, storeEnv);
  await served.check(network);
  const { failed } = await served.load({ bodies: network.bodies, connections: 64, seconds: WARM_UP_S });
  if (failed > 0) throw new Error(`${failed} requests failed at warm-up`);
  return { network, served };
}

/** The samples over and over. */
function bodyOf({ samples: { inputs } }: Network, count: number): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(Array.from({ length: count }, (_, i) => inputs[i % inputs.length])));
}

/** Sends a request of `count` inputs and waits for all outputs; gives their number. */
async function predict({ url }: Target, body: Uint8Array<ArrayBuffer>, count: number): Promise<number> {
  const headers = { "Content-Type": "application/json", Prefer: "wait=300" };
  const response = await fetch(`${url}/predictions`, { method: "POST", headers, body });
  const { outputs } = answerSchema.parse(await response.json());
  if (outputs.length !== count) throw new Error(`${outputs.length} outputs for ${count} inputs`);
  return count;
}

const answerSchema = z.looseObject({ status: z.literal("success"), outputs: z.array(z.unknown()) });
const heldSchema = z.object({ heldMs: z.number() });

/** Time and JS an input, of `task` beside requests of 100 inputs, one after the other. */
async function costBesideFew(
  { network, served, options }: { network: Network; served: Target; options: CaseOptions },
  task: () => Promise<number>,
): Promise<Pick<Measurement, "reached" | "values" | "behind">> {
  const few = bodyOf(network, FEW);
  const costOf = async (request: () => Promise<number>) => {
    const [begin, before] = [performance.now(), served.child.mainThreadSeconds() ?? Number.NaN];
    let count = 0;
    do count += await request();
    while (performance.now() - begin < options.seconds * 1000);
    const after = served.child.mainThreadSeconds() ?? Number.NaN;
    return { us: (1000 * (performance.now() - begin)) / count, jsUs: ((after - before) * 1e6) / count };
  };
  await costOf(task);
  const turns = await inTurns(
    options.repeats,
    async () => {
      await options.canary.listen();
      return costOf(() => predict(served, few, FEW));
    },
    () => costOf(task),
  );
  const values = turns.map(({ before, measured, after }) => measured.us / ((before.us + after.us) / 2));
  const [fewUs, manyUs] = [turns.map(({ before }) => before), turns.map(({ measured }) => measured)];
  const js = [fewUs, manyUs].map((costs) => `${median(costs.map(({ jsUs }) => jsUs)).toFixed(1)} µs`);
  const rates = [fewUs, manyUs].map((costs) => perSecond(1e6 / median(costs.map(({ us }) => us))));
  return {
    reached: spread(values),
    values,
    behind: `inputs ${rates.join(" to ")}, JS thread ${js.join(" to ")} an input`,
  };
}

/** What clients that ask for one prediction at a time feel while `task` is done again and again. */
async function felt(served: Target, network: Network, repeats: number, task: () => Promise<number>) {
  const one = bodyOf(network, 1);
  const times: number[] = [];
  let isOver = false;
  const others = Array.from({ length: OTHERS }, async () => {
    while (!isOver) {
      const begin = performance.now();
      await predict(served, one, 1);
      times.push(performance.now() - begin);
      await Bun.sleep(THINKING_MS);
    }
  });
  await Bun.sleep(500);
  const aloneMs = median(times);
  await served.child.ask({});
  const values: number[] = [];
  let heldMs = 0;
  for (let i = 0; i < repeats; i++) {
    times.length = 0;
    await task();
    values.push(percentile(times, 0.99));
    heldMs = Math.max(heldMs, heldSchema.parse(await served.child.ask({})).heldMs);
  }
  isOver = true;
  await Promise.all(others);
  const behind = `p50 ${ms(median(times))} in the last, ${ms(aloneMs)} without it`;
  return { others: { reached: spread(values), values, behind }, heldMs };
}

function single(value: number): Pick<Measurement, "reached" | "values"> {
  return { reached: spread([value]), values: [value] };
}
