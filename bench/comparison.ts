/**
 * Measures one row of the printed table. The server and its baselines run alternately; one run of a program is a turn.
 */
import type { Canary } from "./canary.ts";
import type { Network } from "./networks.ts";
import { median, sum } from "./numbers.ts";
import { type Goal, type Measurement, rounded } from "./report.ts";
import type { Sample, Start, Target } from "./target.ts";

export interface CaseOptions {
  /** Whole seconds of one turn of a program. Slow cases multiply them by `slow`. */
  readonly seconds: number;
  readonly repeats: number;
  readonly canary: Canary;
}

export interface Comparison {
  readonly network: () => Promise<Network>;
  readonly measured: Start;
  readonly beside: Start | readonly Start[];
  /** Number of concurrent connections; each has one request at a time. */
  readonly connections: number;
  /**
   * `rate` (default): the rate of the measured program divided by the baseline's. `median`: its median latency minus
   * the sum of the baselines' medians.
   */
  readonly quantity?: "rate" | "median";
  readonly goal?: Goal;
  /** First words of the row. Default: network and connections, e.g. "mlp, 256 connections". */
  readonly subject?: string;
  /** Text for the baseline in the row. Default: "of" and the title of the first baseline. */
  readonly compared?: string;
  /**
   * Factor for the length of turns. Set for a model whose batches take a good part of a second, because a mean needs
   * many batches.
   */
  readonly slow?: number;
}

/**
 * Seconds of load before the first turn: enough for the JIT compilers of server and load, and for TorchScript to see
 * every batch size. Runs with short turns warm up for less time.
 */
const WARM_UP_S = 15;
export const warmUpSeconds = (seconds: number) => Math.min(WARM_UP_S, Math.ceil(7.5 * seconds));

export async function compare(what: Comparison, { seconds, repeats, canary }: CaseOptions): Promise<Measurement> {
  const { connections, goal, quantity = "rate", slow } = what;
  const network = await what.network();
  await using opened = new AsyncDisposableStack();
  const start = async (target: Start): Promise<Target> => opened.use(await target(network));
  const baselines: Target[] = [];
  for (const each of [what.beside].flat()) baselines.push(await start(each));
  const measured = await start(what.measured);
  const turnOf = async (target: Target, duration = seconds * (slow ?? 1)) => {
    const sample = await target.measure({ connections, seconds: duration, hasSlowBatches: slow !== undefined });
    await target.check?.();
    return sample;
  };
  for (const target of [measured, ...baselines]) {
    // A program without a server has no `check`, and needs no load to warm up.
    if (target.check === undefined) continue;
    await target.check();
    await turnOf(target, warmUpSeconds(seconds));
  }
  const measureBaselines = async () => {
    await canary.count();
    const samples: Sample[] = [];
    for (const target of baselines) {
      const sample = await turnOf(target);
      if (sample.failed)
        throw new Error(`${sample.failed} requests failed at ${target.title}: nothing to compare with`);
      samples.push(sample);
    }
    return samples;
  };
  // The measured program and the baselines take turns, so a machine that slows down affects both.
  const samples: Sample[] = [];
  const baselineSamples = [await measureBaselines()];
  for (let i = 0; i < repeats; i++) {
    samples.push(await turnOf(measured));
    baselineSamples.push(await measureBaselines());
  }
  const baselineOf = (samples: readonly Sample[]) =>
    quantity === "rate" ? (samples[0]?.perSecond ?? Number.NaN) : sum(samples.map(medianOf));
  return {
    subject: what.subject ?? `${network.name}, ${connections} connection${connections === 1 ? "" : "s"}`,
    compared: what.compared ?? `of ${baselines[0]?.title}`,
    ...(quantity === "median" && { unit: "ms" }),
    ...(goal && { goal }),
    values: samples.map((sample, i) => {
      const beside = (baselineOf(baselineSamples[i] ?? []) + baselineOf(baselineSamples[i + 1] ?? [])) / 2;
      return quantity === "rate" ? sample.perSecond / beside : medianOf(sample) - beside;
    }),
    failed: sum(samples.map(({ failed = 0 }) => failed)),
    details: detailsOf([samples, ...baselines.map((_, i) => baselineSamples.flatMap((samples) => samples[i] ?? []))]),
  };
}

const medianOf = ({ p50Ms = Number.NaN }: Sample) => p50Ms;

/** The medians over all turns as text: first of the measured program, then of each baseline. */
function detailsOf(all: readonly (readonly Sample[])[]): string {
  const flat = all.map((samples) =>
    samples.map(({ perSecond, p50Ms = Number.NaN, p99Ms = Number.NaN, details }) => {
      return { "/s": perSecond, "ms p50": p50Ms, "ms p99": p99Ms, ...details };
    }),
  );
  const names = [...new Set(flat.flat().flatMap(Object.keys))];
  const shown = names.flatMap((name) => {
    const medians = flat.map((samples) =>
      median(samples.map((each) => new Map(Object.entries(each)).get(name) ?? Number.NaN)),
    );
    const known = medians.filter((value) => !Number.isNaN(value));
    return known.length === 0 ? [] : [`${known.map(rounded).join(" to ")} ${name}`];
  });
  return shown.join(", ");
}
