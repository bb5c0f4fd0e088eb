/** Runs before the server is ready: they compile what the weights compile at first use, and show how long a forward pass takes. */
import { availableParallelism } from "node:os";
import { arrayTypes, type Tensor, type TensorSpecs } from "../model/tensor.ts";
import { itemCheck } from "./item-check.ts";
import type { Runner } from "./runner.ts";

/** A forward pass of this length leaves the JS thread little to do beside it, so it may use every core. */
const LONG_FORWARD_MS = 50;
/** No more than about this long is spent on batches that are larger than one item. */
const WARM_UP_BUDGET_MS = 1500;
/** TorchScript profiles its first runs and compiles in the second and third. */
const RUNS = 3;

export interface WarmUpOptions {
  readonly runners: readonly Runner[];
  readonly inputs: TensorSpecs;
  /** Tensors of one item; without them zeros are made where the declared sizes allow it. */
  readonly item: Readonly<Record<string, Tensor>> | undefined;
  readonly maxBatchSize: number;
  /** As the operator or author asked for; undefined: decided here. */
  readonly threads: number | undefined;
  /** Warms with the powers of two up to a full batch too. */
  readonly everySize?: boolean;
}

export interface WarmUpResult {
  readonly threads: number;
  /** Milliseconds of one forward pass on one thread, by batch size; empty when nothing could be run. */
  readonly forwardMs: ReadonlyMap<number, number>;
}

/**
 * Warms every runner with one item and with a full batch.
 * @throws SconceError of the weights or the run when they do not do what was declared
 */
export async function warmUp({
  runners,
  inputs,
  item,
  maxBatchSize,
  threads,
  everySize = false,
}: WarmUpOptions): Promise<WarmUpResult> {
  const budget = availableParallelism();
  const tensors = item ?? zeros(inputs);
  if (tensors === undefined) return finish(threads ?? Math.max(1, budget - 1), new Map());
  const one = itemCheck(inputs)(tensors).tensors;
  const forwardMs = new Map<number, number>();
  for (const runner of runners) {
    let itemMs = await time(runner, [one]);
    forwardMs.set(1, itemMs);
    let leftMs = WARM_UP_BUDGET_MS;
    for (const size of everySize ? doublings(maxBatchSize) : [maxBatchSize]) {
      leftMs -= itemMs * size * RUNS;
      if (size === 1 || leftMs < 0) break;
      const ms = await time(runner, Array<readonly Tensor[]>(size).fill(one));
      forwardMs.set(size, ms);
      itemMs = ms / size;
    }
  }
  const longestMs = forwardMs.get(maxBatchSize) ?? (forwardMs.get(1) ?? 0) * maxBatchSize;
  const perInstance = Math.max(1, Math.floor(budget / runners.length));
  return finish(
    threads ?? (longestMs >= LONG_FORWARD_MS ? perInstance : Math.max(1, Math.min(perInstance, budget - 1))),
    forwardMs,
  );

  async function finish(decided: number, measured: ReadonlyMap<number, number>): Promise<WarmUpResult> {
    await Promise.all(runners.map((runner) => runner.setThreads(decided)));
    return { threads: decided, forwardMs: measured };
  }
}

/** 2, 4, 8, … and at last `max`. */
function doublings(max: number): number[] {
  const sizes: number[] = [];
  for (let size = 2; size < max; size *= 2) sizes.push(size);
  return [...sizes, max];
}

/** The shortest of a few runs. */
async function time(runner: Runner, batch: readonly (readonly Tensor[])[]): Promise<number> {
  let shortest = Infinity;
  for (let i = 0; i < RUNS; i++) {
    const begin = performance.now();
    await runner.run(batch);
    shortest = Math.min(shortest, performance.now() - begin);
  }
  return shortest;
}

/** An item of zeros; undefined when a dimension has no fixed size. */
function zeros(inputs: TensorSpecs): Record<string, Tensor> | undefined {
  const item: Record<string, Tensor> = {};
  for (const [name, { dtype, dims }] of Object.entries(inputs)) {
    const shape = dims.filter((dim) => typeof dim === "number");
    if (shape.length < dims.length) return undefined;
    const count = shape.reduce((product, size) => product * size, 1);
    item[name] = { dtype, shape, data: new arrayTypes[dtype](count) };
  }
  return item;
}
