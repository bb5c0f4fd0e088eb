/** The cases of the benchmark: what is measured beside what, and which goal was set. */
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { z } from "../src/model/z.ts";
import type { Canary } from "./canary.ts";
import type { Goal, Measurement } from "./measurement.ts";
import { buildModel, buildNetwork, type Network, type NetworkName, storeEnv } from "./networks.ts";
import { RawLoop } from "./raw.ts";
import { Target, type TargetLoad } from "./target.ts";
import { inTurns, median, spread } from "./turns.ts";

export interface CaseOptions {
  /** How long one turn takes. */
  readonly seconds: number;
  readonly repeats: number;
  readonly canary: Canary;
}

/** By name, in the order of the table. */
export const cases: Readonly<Record<string, (options: CaseOptions) => Promise<Measurement>>> = {
  raw: (options) => rawAgainstPython("mlp", options),
  "mlp-256": (options) => againstRaw("mlp", { ...options, connections: 256, goal: atLeast(0.9) }),
  "mlp-64": (options) => againstRaw("mlp", { ...options, connections: 64 }),
  "mlp-echo": (options) => againstEcho("mlp", { ...options, connections: 256 }),
  "tiny-64": (options) => againstEcho("tiny", { ...options, connections: 64, goal: atLeast(0.5) }),
  "tiny-1": (options) => oneConnection("tiny", options),
  "mlp-1": (options) => oneConnection("mlp", options),
  start: (options) => startUp(options),
  memory: (options) => memory(options),
};

const BATCH = 64;
const THREADS = 1;
/** Long enough for the JIT compilers of server and load to be done, and for TorchScript to have seen every size it will see. */
const WARM_UP_S = 3;
const LATENCY_GOAL_MS = 0.3;
const START_GOAL_S = 1.5;
const MEMORY_PREDICTIONS = 200_000;
const MEMORY_WARM_UP = 50_000;
const MEMORY_GOAL_MB = 20;

interface LoadCase extends CaseOptions {
  readonly connections: number;
  readonly goal?: Goal;
}

const atLeast = (value: number): Goal => ({ is: "at least", value });
const atMost = (value: number): Goal => ({ is: "at most", value });

async function againstRaw(name: NetworkName, options: LoadCase): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using served = await Target.served(name);
  await using raw = RawLoop.start("addon", network, THREADS);
  const measured = await turnsUnderLoad({ network, served, options }, () => raw.throughput(BATCH, options.seconds));
  return { ...measured, compared: `of the raw loop, batch ${BATCH}` };
}

async function againstEcho(name: NetworkName, options: LoadCase): Promise<Measurement> {
  const network = await buildNetwork(name);
  const { connections, seconds } = options;
  const { bodies } = network;
  await using served = await Target.served(name);
  await using echo = await Target.echo(network);
  await echo.load({ bodies, connections, seconds: WARM_UP_S });
  const measured = await turnsUnderLoad({ network, served, options }, async () =>
    refuseFailures(await echo.load({ bodies, connections, seconds })),
  );
  return { ...measured, compared: "of the echo" };
}

/** What served is measured by; for a loop without JS there is no thread that runs it. */
interface Yardstick {
  readonly perSecond: number;
  readonly jsThreadUs?: number | undefined;
}

/** Served requests a second over what `yardstick` gives a second. */
async function turnsUnderLoad(
  { network, served, options }: { network: Network; served: Target; options: LoadCase },
  yardstick: () => Promise<Yardstick>,
): Promise<Omit<Measurement, "compared">> {
  const { connections, seconds, repeats, canary, goal } = options;
  const { bodies } = network;
  await served.check(network);
  await served.load({ bodies, connections, seconds: WARM_UP_S });
  const before = await served.work();
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return yardstick();
    },
    () => served.load({ bodies, connections, seconds }),
  );
  const after = await served.work();
  await served.check(network);
  const loads = turns.map(({ measured }) => measured);
  const besides = turns.map((turn) => (turn.before.perSecond + turn.after.perSecond) / 2);
  const values = loads.map(({ perSecond }, i) => perSecond / (besides[i] ?? Number.NaN));
  const batch = (after.items - before.items) / (after.batches - before.batches);
  const jsThread = [loads, turns.map((turn) => turn.before)].map(jsThreadText).filter((text) => text !== "");
  return {
    subject: `${network.name}, ${connections} connections`,
    unit: "",
    ...(goal === undefined ? {} : { goal }),
    reached: spread(values),
    values,
    behind: [
      `${perSecond(median(loads.map((each) => each.perSecond)))} to ${perSecond(median(besides))}`,
      ...(jsThread.length > 0 ? [`JS thread ${jsThread.join(" to ")}`] : []),
      `p50 ${ms(median(loads.map(({ p50Ms }) => p50Ms)))}`,
      `p99 ${ms(median(loads.map(({ p99Ms }) => p99Ms)))}`,
      `batches of ${batch.toFixed(1)}`,
    ].join(", "),
    failed:
      sum(loads.map(({ failed }) => failed)) +
      lost(after.failedPredictions - before.failedPredictions, repeats, connections),
    cores: canary.shares(),
  };
}

/** What the server adds for a client alone: its median less the echo's and less that of a forward pass. */
async function oneConnection(name: NetworkName, { seconds, repeats, canary }: CaseOptions): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using served = await Target.served(name);
  await using echo = await Target.echo(network);
  await using raw = RawLoop.start("python", network, THREADS);
  const loadOne = (target: Target, duration: number) =>
    target.load({ bodies: network.bodies, connections: 1, seconds: duration });
  await served.check(network);
  for (const target of [served, echo]) await loadOne(target, WARM_UP_S);
  const workBefore = await served.work();
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      const { medianMs: forwardMs } = await raw.latency(seconds / 2);
      return { forwardMs, echoMs: refuseFailures(await loadOne(echo, seconds)).p50Ms };
    },
    () => loadOne(served, seconds),
  );
  const workAfter = await served.work();
  const besides = turns.map(({ before, after }) => ({
    forwardMs: (before.forwardMs + after.forwardMs) / 2,
    echoMs: (before.echoMs + after.echoMs) / 2,
  }));
  const values = turns.map(({ measured }, i) => {
    const { forwardMs = 0, echoMs = 0 } = besides[i] ?? {};
    return measured.p50Ms - echoMs - forwardMs;
  });
  const middle = (pick: (turn: { served: TargetLoad; forwardMs: number; echoMs: number }) => number) =>
    median(turns.map((turn, i) => pick({ served: turn.measured, forwardMs: 0, echoMs: 0, ...besides[i] })));
  return {
    subject: `${name}, 1 connection`,
    compared: "median over echo and forward",
    unit: "ms",
    goal: atMost(LATENCY_GOAL_MS),
    reached: spread(values),
    values,
    behind: [
      `p50 ${ms(middle((turn) => turn.served.p50Ms))}`,
      `echo ${ms(middle((turn) => turn.echoMs))}`,
      `forward ${ms(middle((turn) => turn.forwardMs))}`,
      `p99 ${ms(middle((turn) => turn.served.p99Ms))}`,
    ].join(", "),
    failed:
      sum(turns.map(({ measured }) => measured.failed)) +
      lost(workAfter.failedPredictions - workBefore.failedPredictions, repeats, 1),
    cores: canary.shares(),
  };
}

/** Whether the yardstick is one: the same loop in PyTorch for Python. */
async function rawAgainstPython(name: NetworkName, { seconds, repeats, canary }: CaseOptions): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using raw = RawLoop.start("addon", network, THREADS);
  await using python = RawLoop.start("python", network, THREADS);
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return (await python.throughput(BATCH, seconds)).perSecond;
    },
    async () => (await raw.throughput(BATCH, seconds)).perSecond,
  );
  const values = turns.map(({ before, measured, after }) => measured / ((before + after) / 2));
  const ours = median(turns.map(({ measured }) => measured));
  const theirs = median(turns.map(({ before, after }) => (before + after) / 2));
  return {
    subject: `${name}, raw loop`,
    compared: "of the same loop in Python",
    unit: "",
    reached: spread(values),
    values,
    behind: `${perSecond(ours)} to ${perSecond(theirs)}`,
    failed: 0,
    cores: canary.shares(),
  };
}

/** From the command to ready, as a user types it. */
async function startUp({ repeats, canary }: CaseOptions): Promise<Measurement> {
  const model = "digits";
  await buildModel(join(root, "examples", model));
  const values: number[] = [];
  for (let i = 0; i < repeats; i++) {
    await canary.listen();
    const begin = performance.now();
    await using _ = await Target.start([join(root, "scripts", "sconce"), "serve", model, "--port", "0"], storeEnv);
    values.push((performance.now() - begin) / 1000);
  }
  return {
    subject: `serve ${model}`,
    compared: "from the command to ready",
    unit: "s",
    goal: atMost(START_GOAL_S),
    reached: spread(values),
    values,
    behind: "",
    failed: 0,
    cores: canary.shares(),
  };
}

/** What stays of predictions that have gone, once as many are kept as may be. */
async function memory({ seconds, canary }: CaseOptions): Promise<Measurement> {
  const network = await buildNetwork("tiny");
  const script = join(import.meta.dir, "memory-server.ts");
  const command = [process.execPath, script, network.name, "--port", "0", "--host", "127.0.0.1", "--threads", "1"];
  await using served = await Target.start(command, storeEnv);
  const collect = async () => memorySchema.parse(await served.child.ask({}));
  const connections = 64;
  let failed = 0;
  let runs = 0;
  const predict = async (count: number) => {
    let answered = 0;
    while (answered < count) {
      const done = await served.load({ bodies: network.bodies, connections, seconds });
      answered += done.answered;
      failed += done.failed;
      runs += 1;
    }
    return answered;
  };
  await served.check(network);
  await predict(MEMORY_WARM_UP);
  await canary.listen();
  const begin = await collect();
  const count = await predict(MEMORY_PREDICTIONS);
  const end = await collect();
  const { failedPredictions } = await served.work();
  const value = (end.residentBytes - begin.residentBytes) / 1e6;
  return {
    subject: "memory of tiny",
    compared: `added by ${MEMORY_PREDICTIONS / 1000},000 predictions`,
    unit: "MB",
    goal: atMost(MEMORY_GOAL_MB),
    reached: spread([value]),
    values: [value],
    behind: [
      `${count} predictions`,
      `resident ${megabytes(begin.residentBytes)} to ${megabytes(end.residentBytes)}`,
      `heap ${megabytes(begin.heapBytes)} to ${megabytes(end.heapBytes)}`,
    ].join(", "),
    failed: failed + lost(failedPredictions, runs, connections),
    cores: canary.shares(),
  };
}

const memorySchema = z.object({ residentBytes: z.number(), heapBytes: z.number() });

/** Failed predictions beyond those that the load left behind: at its end it closes every connection, which cancels what is under way. */
function lost(failedPredictions: number, runs: number, connections: number): number {
  return Math.max(0, failedPredictions - runs * connections);
}

function refuseFailures(done: TargetLoad): TargetLoad {
  if (done.failed > 0) throw new Error(`${done.failed} requests failed at the echo, which then is no yardstick`);
  return done;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function jsThreadText(measured: readonly Yardstick[]): string {
  const known = measured.map(({ jsThreadUs }) => jsThreadUs).filter((us) => us !== undefined);
  return known.length === 0 ? "" : `${median(known).toFixed(0)} µs`;
}

const perSecond = (value: number) => `${Math.round(value).toLocaleString("en")}/s`;
const ms = (value: number) => `${value.toPrecision(value < 1 ? 2 : 3)} ms`;
const megabytes = (value: number) => `${(value / 1e6).toFixed(1)} MB`;
