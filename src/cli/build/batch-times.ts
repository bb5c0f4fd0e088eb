/** Measures how long batches of a model take, and proposes a batch size. */

import type { ModelFacts } from "../../author/define.ts";
import type { Tensor } from "../../author/tensor.ts";
import { batchStacker } from "../../engine/native/binding.ts";
import type { Runner } from "../../engine/runner.ts";
import { doublings, warmUp } from "../../engine/warm-up.ts";
import { availableCores } from "../../machine/control-groups.ts";
import { shortestMs } from "./shortest-time.ts";

export interface BatchTimes {
  readonly size: number;
  readonly stackMs: number;
  /** Milliseconds of a forward pass, including stacking. */
  readonly forwardMs: number;
}

/** Largest batch size to measure in addition to the given sizes. */
const MOST_PROPOSED = 64;
/** Measuring stops before the first size whose forward pass would take longer than these milliseconds. */
const PROPOSED_MS = 1000;
/**
 * The smallest batch size with this share of the best throughput is proposed: larger batches add latency for little
 * gain.
 */
const NEARLY_BEST = 0.9;

export interface Measuring {
  readonly model: Pick<ModelFacts, "tensors" | "settings">;
  /** Tensors of the example input. */
  readonly item: readonly Tensor[];
  /** Batch sizes that have already run without an error. */
  readonly sizes: readonly number[];
}

/**
 * Measures the given sizes and powers of two, with the threads that `serve` would choose. For a model with `batchSize`
 * 1, measures only the given sizes.
 */
export async function measureBatches(
  runners: readonly Runner[],
  { model, item, sizes }: Measuring,
): Promise<{ readonly threads: number; readonly batches: readonly BatchTimes[] }> {
  const { settings, tensors } = model;
  const [runner] = runners;
  const { threads } = await warmUp({
    runners,
    inputs: tensors.inputs,
    item: Object.fromEntries(Object.keys(tensors.inputs).flatMap((name, i) => (item[i] ? [[name, item[i]]] : []))),
    maxBatchSize: sizes.at(-1) ?? 1,
    threads: settings.threads,
    cores: availableCores(),
  });
  if (runner === undefined) return { threads, batches: [] };
  const stack = batchStacker(tensors.inputs);
  const measure = async (size: number): Promise<BatchTimes> => {
    const batch = batchOf(item, size);
    const forwardMs = await shortestMs(() => runner.run(batch));
    return { size, stackMs: await shortestMs(async () => stack(batch)), forwardMs };
  };
  const batches: BatchTimes[] = [];
  for (const size of sizes) batches.push(await measure(size));
  const most = settings.batchSize === 1 ? 1 : Math.min(MOST_PROPOSED, runner.mostRows ?? MOST_PROPOSED);
  for (const size of doublings(most).filter((other) => !sizes.includes(other))) {
    const itemMs = Math.min(...batches.map((each) => 1 / throughput(each)));
    if (itemMs * size > PROPOSED_MS) break;
    // Ends at an error, because weights may refuse batches above the declared size.
    const times = await measure(size).catch(() => undefined);
    if (times === undefined) break;
    batches.push(times);
  }
  return { threads, batches: batches.toSorted((one, other) => one.size - other.size) };
}

/** The smallest batch size with nearly the best throughput. @returns undefined when only one size was measured */
export function proposedBatchSize(batches: readonly BatchTimes[]): number | undefined {
  if (batches.length < 2) return undefined;
  const best = Math.max(...batches.map(throughput));
  return batches.find((each) => throughput(each) >= NEARLY_BEST * best)?.size;
}

/** Throughput in items per millisecond. */
function throughput({ size, forwardMs }: BatchTimes): number {
  return size / forwardMs;
}

export function batchOf(item: readonly Tensor[], size: number): (readonly Tensor[])[] {
  return Array<readonly Tensor[]>(size).fill(item);
}
