/** Measures batch sizes, instances and threads on this machine, and chooses the best setting. */

import type { Tensor } from "../author/tensor.ts";
import { hasCode } from "../base/errors.ts";
import type { Runner } from "./runner.ts";
import { doublings } from "./warm-up.ts";

export interface TunedSetting {
  readonly batchSize: number;
  readonly instances: number;
  readonly threads: number;
}

export interface Tuned extends TunedSetting {
  /** Items a second with full batches: the median over the rounds. */
  readonly throughput: number;
  readonly batchMs: number;
}

export interface TunerOptions {
  /** The runners to measure: at least as many as the largest `instances` in `settings`. */
  readonly runners: readonly Runner[];
  readonly item: readonly Tensor[];
  readonly settings: readonly TunedSetting[];
  /** Time for all trials. A running batch may exceed it. */
  readonly budgetMs: number;
  /** Called for a setting that fails, except for lack of memory. */
  readonly onLeftOut?: (setting: TunedSetting, error: unknown) => void;
  readonly onRound?: (round: number, best: Tuned) => void;
  readonly now?: () => number;
}

/** Runs of one item on each runner before its trials, because first runs compile code. */
const COLD_RUNS = 2;
/** Count of rounds that share the budget. Short trials leave time for more rounds. */
const ROUNDS = 5;
/** Milliseconds for one setting in one round. Longer trials are no more exact, because disturbances come and go. */
const MAX_SLICE_MS = 250;
/** Batches handed to a runner at a time: one runs and one waits, as when serving. */
const IN_FLIGHT = 2;
/** A setting with at least this share of the best throughput counts as equally fast: smaller differences are noise. */
const AS_GOOD = 0.95;

export interface SettingLimits {
  readonly cores: number;
  /** Thread counts are only tried on a CPU. */
  readonly isCpu: boolean;
  readonly maxBatchSize: number;
  /** Values that the operator has set. */
  readonly fixed: { readonly [K in keyof TunedSetting]?: number | undefined };
}

/** Every combination that is worth a trial on this machine, small batches first. */
export function settingsToTry({ cores, isCpu, maxBatchSize, fixed }: SettingLimits): TunedSetting[] {
  const instanceCounts = fixed.instances === undefined ? doublings(isCpu ? Math.min(8, cores) : 2) : [fixed.instances];
  const sizes = fixed.batchSize === undefined ? doublings(maxBatchSize) : [fixed.batchSize];
  return sizes.flatMap((batchSize) =>
    instanceCounts.flatMap((instances) => {
      const most = isCpu ? Math.max(1, Math.floor(cores / instances)) : 1;
      const threadCounts = fixed.threads === undefined ? doublings(most) : [fixed.threads];
      return threadCounts.map((threads) => ({ batchSize, instances, threads }));
    }),
  );
}

/**
 * Tries the settings in turn, round after round, so that disturbances affect all settings alike. A setting is skipped
 * if the time left is too short for its batch, judging by smaller batches. The first setting is always tried.
 * @returns the working settings, fastest first. Settings with failed batches are left out.
 * @throws SconceError of the first failure for another reason than memory, if no setting works
 */
export async function tune(options: TunerOptions): Promise<Tuned[]> {
  const { runners, item, settings, budgetMs, onRound, onLeftOut, now = () => performance.now() } = options;
  const sliceMs = Math.min(MAX_SLICE_MS, budgetMs / settings.length / ROUNDS);
  const endMs = now() + budgetMs;
  const trials = new Map<TunedSetting, Trial[]>(settings.map((setting) => [setting, []]));
  const cold = new Set(runners);
  // One setting is always measured, even without time for it.
  let hasMeasured = false;
  let fault: unknown;
  for (let round = 1, begun = 1; begun > 0; round++) {
    begun = 0;
    for (const [setting, done] of trials) {
      if (hasMeasured && expectedMs(setting, trials) >= endMs - now()) continue;
      begun += 1;
      try {
        const used = runners.slice(0, setting.instances);
        await Promise.all(used.map((runner) => runner.setThreads(setting.threads)));
        for (const runner of used.filter((each) => cold.delete(each))) {
          for (let i = 0; i < COLD_RUNS && now() < endMs; i++) await runner.run([item]);
        }
        if (hasMeasured && now() >= endMs) continue;
        done.push(await tryOnce(used, setting, { item, sliceMs, now }));
        hasMeasured = true;
      } catch (error) {
        trials.delete(setting);
        if (hasCode(error, "out_of_memory")) continue;
        fault ??= error;
        onLeftOut?.(setting, error);
      }
    }
    const [best] = ranked(trials);
    if (best !== undefined) onRound?.(round, best);
  }
  const tuned = ranked(trials);
  if (tuned.length === 0 && fault !== undefined) throw fault;
  return tuned;
}

/**
 * Expected milliseconds of a batch, from trials of batches up to its size with the same instances and threads; 0
 * without trials.
 */
function expectedMs(
  { batchSize, instances, threads }: TunedSetting,
  trials: ReadonlyMap<TunedSetting, readonly Trial[]>,
): number {
  let least = Infinity;
  for (const [other, done] of trials) {
    if (other.instances !== instances || other.threads !== threads || other.batchSize > batchSize) continue;
    for (const { batchMs } of done) least = Math.min(least, (batchMs * batchSize) / other.batchSize);
  }
  return least === Infinity ? 0 : least;
}

/**
 * The simplest setting with nearly the best throughput: fewest instances, then fewest threads, then the smallest batch.
 */
export function bestOf(tuned: readonly Tuned[]): Tuned | undefined {
  const most = Math.max(...tuned.map(({ throughput }) => throughput));
  const [simplest] = tuned
    .filter(({ throughput }) => throughput >= AS_GOOD * most)
    .sort((a, b) => a.instances - b.instances || a.threads - b.threads || a.batchSize - b.batchSize);
  return simplest;
}

interface Trial {
  readonly throughput: number;
  readonly batchMs: number;
}

function ranked(trials: ReadonlyMap<TunedSetting, readonly Trial[]>): Tuned[] {
  return [...trials]
    .filter(([, done]) => done.length > 0)
    .map(([setting, done]) => ({
      ...setting,
      throughput: median(done.map(({ throughput }) => throughput)),
      batchMs: median(done.map(({ batchMs }) => batchMs)),
    }))
    .sort((a, b) => b.throughput - a.throughput);
}

interface TrialOptions {
  readonly item: readonly Tensor[];
  readonly sliceMs: number;
  readonly now: () => number;
}

async function tryOnce(
  used: readonly Runner[],
  { batchSize, instances }: TunedSetting,
  { item, sliceMs, now }: TrialOptions,
): Promise<Trial> {
  const batch = Array<readonly Tensor[]>(batchSize).fill(item);
  const first = now();
  await Promise.all(used.map((runner) => runner.run(batch)));
  const firstMs = now() - first;
  // One long batch is a sufficient measurement. A short first batch does not count: it starts threads and compiles code
  // for this size.
  if (firstMs >= sliceMs) return { throughput: (1000 * instances * batchSize) / firstMs, batchMs: firstMs };
  const begun = now();
  let batches = 0;
  const keepBusy = async (runner: Runner) => {
    do {
      await runner.run(batch);
      batches += 1;
    } while (now() - begun < sliceMs);
  };
  await Promise.all(used.flatMap((runner) => Array.from({ length: IN_FLIGHT }, () => keepBusy(runner))));
  const tookMs = now() - begun;
  return { throughput: (1000 * batches * batchSize) / tookMs, batchMs: (tookMs * instances) / batches };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
