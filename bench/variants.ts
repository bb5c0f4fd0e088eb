/** The same model served in two ways, in turns: what an engine process, several fronts, and a store on disk cost or bring. */
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Image } from "../src/model/media.ts";
import { startRedis } from "../test/helpers/redis.ts";
import type { Way } from "./load.ts";
import type { CaseOptions, Goal, Measurement } from "./measurement.ts";
import { buildNetwork, buildOwnModel, madeBy, type NetworkName, writeAsked } from "./networks.ts";
import { pictures } from "./pictures.ts";
import { ms, perSecond } from "./quantity.ts";
import { Target, type TargetLoad, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

export interface VariantCase extends CaseOptions {
  readonly connections: number;
  /** Flags of the one that is measured, and of the one that it is compared with. */
  readonly flags: readonly string[];
  readonly beside: readonly string[];
  readonly goal?: Goal;
  readonly way?: Way;
}

const ONE_PROCESS = ["--no-isolate", "--store", "memory"] as const;
const TWO_PROCESSES = ["--fronts", "1", "--store", "memory"] as const;

/** An engine process beside the front, of one process for both. */
export function isolation(name: NetworkName, options: CaseOptions & { connections: number; goal?: Goal }) {
  const compared =
    options.connections === 1 ? "engine process, median over that of --no-isolate" : "engine process, of --no-isolate";
  return ofVariants(name, compared, { ...options, flags: TWO_PROCESSES, beside: ONE_PROCESS });
}

/** Predictions in a file, of those in memory. */
export async function storing(
  name: NetworkName,
  options: CaseOptions & { connections: number; goal: Goal; way?: Way },
) {
  const folder = await mkdtemp(join(tmpdir(), "sconce-bench-"));
  try {
    const flags = ["--fronts", "1", "--store", join(folder, "predictions.sqlite")];
    return await ofVariants(name, "predictions in a file, of in memory", { ...options, flags, beside: TWO_PROCESSES });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** A replica that shares predictions through Redis, alone with it, of one server alone. */
export async function queueing(name: NetworkName, options: CaseOptions & { connections: number; goal: Goal }) {
  await using redis = await startRedis();
  const flags = ["--fronts", "1", "--queue", redis.url];
  const compared = "replica with Redis, of one alone";
  return await ofVariants(name, compared, { ...options, flags, beside: TWO_PROCESSES });
}

/** Two fronts, of one. */
export function fronts(name: NetworkName | "mean", options: CaseOptions & { connections: number }) {
  return ofVariants(name, "two fronts, of one", {
    ...options,
    flags: ["--fronts", "2", "--store", "memory"],
    beside: TWO_PROCESSES,
  });
}

async function ofVariants(name: NetworkName | "mean", compared: string, options: VariantCase): Promise<Measurement> {
  const { connections, seconds, repeats, canary, goal, way = "wait" } = options;
  const bodies = name === "mean" ? await buildPictures() : (await buildNetwork(name)).bodies;
  await using measured = await Target.served(name, ["--threads", "1", ...options.flags]);
  await using beside = await Target.served(name, ["--threads", "1", ...options.beside]);
  const hasSlowBatches = name === "mlp" && connections > 1;
  const loadFor = (target: Target, duration: number) =>
    target.load({ bodies, connections, seconds: duration, way, hasSlowBatches });
  for (const target of [measured, beside]) await loadFor(target, WARM_UP_S);
  const engineBefore = engineSeconds(measured);
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return loadFor(beside, seconds);
    },
    () => loadFor(measured, seconds),
  );
  const engineS = engineSeconds(measured) - engineBefore;
  const isLatency = connections === 1;
  const values = turns.map((turn) => {
    const [p50Ms, rate] = [middleOf(turn, ({ p50Ms }) => p50Ms), middleOf(turn, (load) => load.perSecond)];
    return isLatency ? turn.measured.p50Ms - p50Ms : turn.measured.perSecond / rate;
  });
  const answered = sum(turns.map((turn) => turn.measured.answered));
  const loads = turns.map((turn) => turn.measured);
  const besides = turns.map((turn) => turn.before);
  return {
    subject: [
      name === "mean" ? "pictures" : name,
      `${connections} ${connections === 1 ? "connection" : "connections"}`,
      ...(way === "wait" ? [] : ["create then read"]),
    ].join(", "),
    compared,
    unit: isLatency ? "ms" : "",
    ...(goal === undefined ? {} : { goal }),
    reached: spread(values),
    values,
    behind: [
      isLatency
        ? `p50 ${ms(median(loads.map(({ p50Ms }) => p50Ms)))} to ${ms(median(besides.map(({ p50Ms }) => p50Ms)))}`
        : `${perSecond(median(loads.map((each) => each.perSecond)))} to ${perSecond(median(besides.map((each) => each.perSecond)))}`,
      // Of several fronts the process that was started is none.
      `JS thread of the front ${options.flags.includes("2") ? "" : `${jsThreadOf(loads)} to `}${jsThreadOf(besides)}`,
      ...(engineS > 0 ? [`engine process ${((engineS / answered) * 1e6).toFixed(0)} µs of all its threads`] : []),
    ].join(", "),
    failed: sum(turns.map((turn) => turn.measured.failed)),
    cores: canary.shares(),
  };
}

function middleOf(
  { before, after }: { before: TargetLoad; after: TargetLoad },
  pick: (load: TargetLoad) => number,
): number {
  return (pick(before) + pick(after)) / 2;
}

function jsThreadOf(loads: readonly TargetLoad[]): string {
  const known = loads.map(({ jsThreadUs }) => jsThreadUs).filter((us) => us !== undefined);
  return known.length === 0 ? "unknown" : `${median(known).toFixed(0)} µs`;
}

/** Processor time of the server's engine process so far, of all its threads; 0 where there is none. */
function engineSeconds({ child }: Target): number {
  let seconds = 0;
  for (const pid of child.children()) {
    if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("[engine]")) continue;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      seconds += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e9;
    }
  }
  return seconds;
}

/** Pictures as data URIs, for a model that costs nothing. */
export async function buildPictures(): Promise<string> {
  const name = "mean";
  const folder = await madeBy("mean.py", { name, makes: "weights.pt" });
  const requests = (await pictures()).map(({ bytes }) => ({
    image: new Image({ bytes, mediaType: "image/jpeg" }).toDataUri(),
  }));
  const { bodies } = await writeAsked(folder, { requests, inputs: [] });
  await buildOwnModel(name);
  return bodies;
}
