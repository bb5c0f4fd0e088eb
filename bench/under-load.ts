/** Throughput: served requests a second beside what the raw loop or the echo does. */
import { askedInBytes } from "./binary.ts";
import type { Way } from "./load.ts";
import type { CaseOptions, Goal, Measurement } from "./measurement.ts";
import { buildNetwork, type Network, type NetworkName } from "./networks.ts";
import { ms, perSecond } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { lost, refuseFailures, Target, type TargetLoad, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

const BATCH = 64;
const THREADS = 1;
/**
 * How many times as long a turn takes where a batch takes tenths of a second: enough batches, and enough of other people's noise,
 * to be an average of.
 */
export const SLOW_TURNS = 5;
const SLOW_WARM_UP_S = 10;

export interface LoadCase extends CaseOptions {
  readonly connections: number;
  readonly goal?: Goal;
  /** "wait" unless it is given. */
  readonly way?: Way;
  /** What inputs are on the wire: lists of numbers, unless it says bytes in base64. */
  readonly form?: "lists" | "bytes";
  /** A batch takes tenths of a second: see `LoadOptions`. */
  readonly hasSlowBatches?: boolean;
}

export async function againstRaw(name: NetworkName, options: LoadCase): Promise<Measurement> {
  const built = await buildNetwork(name);
  const network = options.form === "bytes" ? await askedInBytes(built) : built;
  await using served = await Target.served(name);
  await using raw = RawLoop.start("addon", network, THREADS);
  const measured = await turnsUnderLoad({ network, served, options }, () => raw.throughput(BATCH, options.seconds));
  const compared = `of the raw loop, batch ${BATCH}`;
  const inEachBatch = Math.floor(options.connections / 2);
  if (inEachBatch >= BATCH) return { ...measured, compared };
  // While one batch runs the clients of the other are answered and ask again: of so few none can be fuller.
  const few = await inTurns(
    options.repeats,
    () => raw.throughput(BATCH, options.seconds),
    () => raw.throughput(inEachBatch, options.seconds),
  );
  const share = median(
    few.map((turn) => (2 * turn.measured.perSecond) / (turn.before.perSecond + turn.after.perSecond)),
  );
  return {
    ...measured,
    compared,
    behind: `${measured.behind}; the raw loop with batches of ${inEachBatch}: ${share.toFixed(2)}`,
  };
}

export async function againstEcho(name: NetworkName, options: LoadCase): Promise<Measurement> {
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
export interface Yardstick {
  readonly perSecond: number;
  readonly jsThreadUs?: number | undefined;
}

/** Served requests a second over what `yardstick` gives a second. */
export async function turnsUnderLoad(
  { network, served, options }: { network: Network; served: Target; options: LoadCase },
  yardstick: () => Promise<Yardstick>,
): Promise<Omit<Measurement, "compared">> {
  const { connections, seconds, repeats, canary, goal, way = "wait", form = "lists", hasSlowBatches = false } = options;
  const { bodies } = network;
  const loadFor = (duration: number) => served.load({ bodies, connections, seconds: duration, way, hasSlowBatches });
  await served.check(network);
  await loadFor(hasSlowBatches ? SLOW_WARM_UP_S : WARM_UP_S);
  await served.check(network);
  const before = await served.work();
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return yardstick();
    },
    async () => {
      const begin = await served.work();
      const done = await loadFor(seconds);
      const end = await served.work();
      // What the load left behind runs on; this waits in line behind it, so that the yardstick has the machine to itself.
      await served.check(network);
      return { ...done, batches: end.batches - begin.batches, items: end.items - begin.items };
    },
  );
  const after = await served.work();
  const loads = turns.map(({ measured }) => measured);
  const besides = turns.map((turn) => (turn.before.perSecond + turn.after.perSecond) / 2);
  const values = loads.map(({ perSecond }, i) => perSecond / (besides[i] ?? Number.NaN));
  const batch = sum(loads.map(({ items }) => items)) / sum(loads.map(({ batches }) => batches));
  const jsThread = [loads, turns.map((turn) => turn.before)].map(jsThreadText).filter((text) => text !== "");
  return {
    subject: [
      network.name,
      ...(form === "bytes" ? ["inputs as bytes"] : []),
      `${connections} connections`,
      ...(way === "wait" ? [] : ["create then read"]),
    ].join(", "),
    unit: "",
    ...(goal === undefined ? {} : { goal }),
    reached: spread(values),
    values,
    behind: [
      `${perSecond(median(loads.map((each) => each.perSecond)))} to ${perSecond(median(besides))}`,
      ...(jsThread.length > 0 ? [`JS thread ${jsThread.join(" to ")}`] : []),
      ...(way === "wait"
        ? [`p50 ${ms(median(loads.map(({ p50Ms }) => p50Ms)))}`, `p99 ${ms(median(loads.map(({ p99Ms }) => p99Ms)))}`]
        : []),
      `batches of ${batch.toFixed(1)}`,
      ...busiestText(loads),
    ].join(", "),
    failed:
      sum(loads.map(({ failed }) => failed)) +
      lost(after.failedPredictions - before.failedPredictions, { runs: repeats, connections }),
    cores: canary.shares(),
  };
}

function busiestText(loads: readonly TargetLoad[]): string[] {
  const known = loads.map(({ busiest }) => busiest).filter((each) => each !== undefined);
  if (known.length === 0) return [];
  const [ran, waited] = [known.map((each) => each.ran), known.map((each) => each.waited)].map(median);
  return [`the busiest other thread ran ${ran?.toFixed(2)} of the time and waited ${waited?.toFixed(2)} for a core`];
}

function jsThreadText(measured: readonly Yardstick[]): string {
  const known = measured.map(({ jsThreadUs }) => jsThreadUs).filter((us) => us !== undefined);
  return known.length === 0 ? "" : `${median(known).toFixed(0)} µs`;
}
