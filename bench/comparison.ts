/** Measures a row of the table: a server under load and its comparison take turns. */
import type { Canary } from "./canary.ts";
import type { Network } from "./networks.ts";
import { median, sum } from "./numbers.ts";
import { type Goal, type Measurement, rounded } from "./report.ts";
import type { Sample, Start, Target } from "./target.ts";

/** Options of all cases. */
export interface CaseOptions {
  /** Duration of one turn; an integer. */
  readonly seconds: number;
  readonly repeats: number;
  readonly canary: Canary;
}

export interface Comparison {
  /** The network that all compared programs serve. */
  readonly network: () => Promise<Network>;
  readonly measured: Start;
  readonly beside: Start | readonly Start[];
  /** Concurrent connections with one request at a time each. */
  readonly connections: number;
  /**
   * `rate`: the ratio of the rates (default). `median`: the median latency, minus the sum of the medians of the
   * comparisons.
   */
  readonly quantity?: "rate" | "median";
  readonly goal?: Goal;
  /** Default: e.g. "mlp, 256 connections". */
  readonly subject?: string;
  /** Default: "of" and the title of the first comparison. */
  readonly compared?: string;
  /**
   * Batches take a good part of a second, see `LoadOptions`. Turns are longer by this factor, so that they contain
   * enough batches for a mean.
   */
  readonly slow?: number;
}

/**
 * Long enough for the JIT compilers of server and load, and for TorchScript to see every batch size. Trials with
 * shorter turns warm up for less time.
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
    // Only servers warm up under load.
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
  // Alternating turns: a machine that slows down affects both sides.
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

/** Medians of all turns: of the measured program, then of each comparison. */
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
