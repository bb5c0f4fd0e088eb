/** Random loads on a simulated device. A seed repeats them. */
import { type Batch, Simulation } from "./simulation.ts";

/** Random numbers from 0 to below 1; the same seed gives the same numbers (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Milliseconds that a device takes for a batch of `size` items, without noise. */
export type Curve = (size: number) => number;

/** Times in milliseconds at which items become ready, sorted. */
export type Load = readonly number[];

/** A load of single items that arrive independently, `perMs` on average. */
export function poisson(perMs: number, { count, seed }: { count: number; seed: number }): Load {
  const random = seeded(seed);
  let atMs = 0;
  return Array.from({ length: count }, () => {
    atMs += exponential(random, 1 / perMs);
    return atMs;
  });
}

/** A load of independent bursts. Each has 1 to 31 items within some milliseconds. */
export function bursts(perMs: number, { count, seed }: { count: number; seed: number }): Load {
  const random = seeded(seed);
  const meanSize = 16;
  const times: number[] = [];
  for (let beginMs = 0; times.length < count; ) {
    beginMs += exponential(random, meanSize / perMs);
    const size = 1 + Math.floor(random() * (2 * meanSize - 1));
    for (let i = 0, atMs = beginMs; i < size; i++) {
      atMs += exponential(random, 0.2);
      times.push(atMs);
    }
  }
  return times.sort((a, b) => a - b).slice(0, count);
}

/** A load whose rate alternates between a third and five thirds of `perMs`, every half second. */
export function steps(perMs: number, { count, seed }: { count: number; seed: number }): Load {
  const random = seeded(seed);
  const times: number[] = [];
  for (let atMs = 0; times.length < count; times.push(atMs)) {
    const isHigh = Math.floor(atMs / 500) % 2 === 1;
    atMs += exponential(random, 1 / (perMs * (isHigh ? 5 / 3 : 1 / 3)));
  }
  return times;
}

function exponential(random: () => number, mean: number): number {
  return -mean * Math.log(1 - random());
}

export interface Setting {
  readonly maxBatchSize: number;
  readonly maxQueueDelayMs?: number;
  readonly latencyTargetMs?: number;
  readonly runners?: number;
}

export interface Outcome {
  /** Items per second, from the first arrival to the last completion. */
  readonly throughput: number;
  readonly p99Ms: number;
  readonly latenciesMs: readonly number[];
  readonly batches: readonly Batch[];
}

/** Number of items at the start of a load whose latencies do not count, because the batching policy still learns. */
const LEARNING = 500;

/** Runs a load on a simulated device. Batch times vary by about 5 %. */
export async function serveLoad(
  load: Load,
  setting: Setting,
  { curve, seed }: { curve: Curve; seed: number },
): Promise<Outcome> {
  const random = seeded(seed);
  const noise = () => Math.exp(0.05 * Math.sqrt(3) * (random() + random() + random() + random() - 2));
  const simulation = new Simulation({ ...setting, durationMs: (size) => curve(size) * noise() });
  // The two batches with which a real server warms up teach the latency target.
  for (const size of [1, setting.maxBatchSize]) simulation.target?.ran(size, curve(size));
  const lane = {};
  for (const atMs of load) {
    await simulation.clock.advanceTo(atMs);
    simulation.add(lane, 1);
  }
  await simulation.clock.drain();
  const latenciesMs = load.map((atMs, id) => (simulation.finishedAtMs.get(id) ?? Infinity) - atMs).slice(LEARNING);
  const throughput = (1000 * load.length) / (simulation.clock.now() - (load[0] ?? 0));
  return { throughput, p99Ms: p99(latenciesMs), latenciesMs, batches: simulation.batches };
}

/**
 * Runs several loads of one kind, each on a new device. @returns their mean throughput, and the 99th percentile of
 * all latencies
 */
export async function serveLoads(
  loads: readonly Load[],
  setting: Setting,
  curve: Curve,
): Promise<Omit<Outcome, "batches">> {
  const outcomes: Outcome[] = [];
  for (const [i, load] of loads.entries()) outcomes.push(await serveLoad(load, setting, { curve, seed: 100 + i }));
  const latenciesMs = outcomes.flatMap((outcome) => outcome.latenciesMs);
  const throughput = outcomes.reduce((sum, outcome) => sum + outcome.throughput, 0) / outcomes.length;
  return { throughput, p99Ms: p99(latenciesMs), latenciesMs };
}

/**
 * The best fixed setting for a load: the lowest 99th percentile of latency among the settings with (nearly) the
 * highest throughput.
 */
export async function bestFixed(load: Load, grid: readonly Setting[], curve: Curve): Promise<Setting> {
  const outcomes: { setting: Setting; throughput: number; p99Ms: number }[] = [];
  for (const setting of grid) outcomes.push({ setting, ...(await serveLoad(load, setting, { curve, seed: 1 })) });
  const most = Math.max(...outcomes.map(({ throughput }) => throughput));
  const [best] = outcomes.filter(({ throughput }) => throughput >= 0.99 * most).sort((a, b) => a.p99Ms - b.p99Ms);
  if (best === undefined) throw new Error("the grid has no setting");
  return best.setting;
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(0.99 * values.length)] ?? Infinity;
}
