/** Runs the model before the server is ready. First runs compile code, and show how long a forward pass takes. */

import { arrayTypes, countOf, fixedShape, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import { copied } from "../author/tensor-memory.ts";
import { hasCode } from "../base/errors.ts";
import { slowStep } from "../base/slow-step.ts";
import { availableCores } from "../machine/control-groups.ts";
import { itemCheck } from "./item-check.ts";
import type { Runner } from "./runner.ts";

/**
 * Forward passes of at least this many milliseconds may use every core, because the JavaScript thread has little to do
 * meanwhile.
 */
const LONG_FORWARD_MS = 50;
/** Milliseconds for warm-up batches of more than one item. */
const WARM_UP_BUDGET_MS = 1500;
/** Runs of each batch size. On a GPU, TorchScript profiles its first runs and compiles in the second and third. */
const RUNS = 3;
/** Maximum runs of a short batch: the shortest of many runs varies least. */
const SHORT_RUNS = 33;
/** After `RUNS` runs of a batch size, more runs follow only until all together took this many milliseconds. */
const SHORT_RUNS_MS = 40;
/** Runs of a batch size stop once they took this many milliseconds together, if all code is compiled. */
const ENOUGH_MS = 200;
/** Threads are doubled if a forward pass then takes less than this share of its time. */
const WORTH_MORE_THREADS = 0.9;

export interface WarmUpOptions {
  /** Runners that were opened with `threads` threads; with one thread if `threads` is undefined. */
  readonly runners: readonly Runner[];
  readonly inputs: TensorSpecs;
  /** Tensors of one item. Default: zeros, if all declared sizes are fixed. */
  readonly item: Readonly<Record<string, Tensor>> | undefined;
  readonly maxBatchSize: number;
  /** The operator's or author's setting; undefined for the fastest count. */
  readonly threads: number | undefined;
  /** Whether batches of 2, 4, 8 and so on run too, besides one item and a full batch. */
  readonly everySize?: boolean;
  readonly cores?: number;
  readonly now?: () => number;
}

interface Measured {
  /** The requested size, halved until a batch fitted into the device's memory. */
  readonly maxBatchSize: number;
  /** Milliseconds of one forward pass, by batch size; empty if nothing was run. */
  readonly forwardMs: ReadonlyMap<number, number>;
}

export interface WarmUpResult extends Measured {
  readonly threads: number;
}

/**
 * Warms every runner with one item and with a full batch, and finds the fastest count of threads. Without an
 * example, runs nothing if a declared size is not fixed.
 * @throws SconceError if the weights or the run contradict the declaration, `out_of_memory` if one item does not fit
 */
export async function warmUp(options: WarmUpOptions): Promise<WarmUpResult> {
  const { runners, inputs, item, maxBatchSize, threads } = options;
  const { cores = availableCores(), now = () => performance.now(), everySize = false } = options;
  const one = exampleOrZeros(inputs, item);
  let result: WarmUpResult;
  if (one === undefined) {
    const guess = mostThreads({ cores, instances: runners.length, forwardMs: 0 });
    result = { threads: threads ?? guess, maxBatchSize, forwardMs: new Map() };
  } else {
    const trials = runners.map((runner) => new Trials(runner, one, { now, everySize }));
    result = await tryAll(trials, { maxBatchSize, threads, cores });
  }
  await Promise.all(runners.map((runner) => runner.setThreads(result.threads)));
  return result;
}

async function tryAll(
  [first, ...others]: readonly Trials[],
  { maxBatchSize, threads, cores }: { maxBatchSize: number; threads: number | undefined; cores: number },
): Promise<WarmUpResult> {
  if (first === undefined) throw new RangeError("there is no runner to warm up");
  let measured = await first.measure(maxBatchSize);
  const decided = threads ?? (await first.fastestThreads(measured, cores, others.length + 1));
  if (threads === undefined && decided > 1) measured = await first.measure(measured.maxBatchSize, ENOUGH_MS);
  for (const other of others) {
    measured = { ...measured, maxBatchSize: (await other.measure(measured.maxBatchSize)).maxBatchSize };
  }
  return { threads: decided, ...measured };
}

/** Measures runs of one runner, with batches that repeat one item. */
class Trials {
  readonly #runner: Runner;
  readonly #one: readonly Tensor[];
  readonly #now: () => number;
  readonly #everySize: boolean;

  constructor(
    runner: Runner,
    one: readonly Tensor[],
    { now, everySize }: { readonly now: () => number; readonly everySize: boolean },
  ) {
    this.#runner = runner;
    this.#one = one;
    this.#now = now;
    this.#everySize = everySize;
  }

  /** Measures one item, and the largest batch that fits into the device's memory, unless that takes too long. */
  async measure(asked: number, enoughMs = Infinity): Promise<Measured> {
    let itemMs = await this.#time(1, enoughMs);
    const forwardMs = new Map([[1, itemMs]]);
    let maxBatchSize = asked;
    let leftMs = WARM_UP_BUDGET_MS;
    const sizes = this.#everySize ? doublings(asked).slice(1) : [asked];
    for (let i = 0; i < sizes.length; i++) {
      const size = Math.min(sizes[i] ?? 1, maxBatchSize);
      leftMs -= itemMs * size * RUNS;
      if (size === 1 || leftMs < 0) break;
      try {
        const ms = await this.#time(size, enoughMs);
        forwardMs.set(size, ms);
        itemMs = ms / size;
      } catch (error) {
        if (!hasCode(error, "out_of_memory")) throw error;
        maxBatchSize = size >> 1;
        // The halved size must still run, unless it ran before.
        if (!forwardMs.has(maxBatchSize)) i -= 1;
        else break;
      }
    }
    return { maxBatchSize, forwardMs };
  }

  /** Doubles the threads while the largest measured batch becomes clearly faster. */
  async fastestThreads({ forwardMs, maxBatchSize }: Measured, cores: number, instances: number): Promise<number> {
    const size = Math.max(...forwardMs.keys());
    let [best, bestMs] = [1, forwardMs.get(size) ?? 0];
    for (;;) {
      // The time of a full batch is estimated if the batch was too long to be measured.
      const fullMs = (bestMs * maxBatchSize) / size;
      const next = Math.min(2 * best, mostThreads({ cores, instances, forwardMs: fullMs }));
      if (next <= best) break;
      await this.#runner.setThreads(next);
      const ms = await this.#time(size, ENOUGH_MS);
      if (ms > WORTH_MORE_THREADS * bestMs) break;
      [best, bestMs] = [next, ms];
    }
    await this.#runner.setThreads(best);
    return best;
  }

  /**
   * Milliseconds of the shortest run. Runs stop early once they took `enoughMs` together or, after `RUNS` runs,
   * `SHORT_RUNS_MS`.
   */
  async #time(size: number, enoughMs: number): Promise<number> {
    const batch = Array<readonly Tensor[]>(size).fill(this.#one);
    const doing = `Warming up with ${size === 1 ? "one item" : `a batch of ${size}`}`;
    const started = this.#now();
    let shortest = Infinity;
    for (let i = 0; i < SHORT_RUNS; i++) {
      if (i > 0 && this.#now() - started >= (i < RUNS ? enoughMs : SHORT_RUNS_MS)) break;
      const begin = this.#now();
      await slowStep(doing, this.#runner.rehearse?.(batch) ?? this.#runner.run(batch));
      shortest = Math.min(shortest, this.#now() - begin);
    }
    return shortest;
  }
}

export function doublings(max: number): number[] {
  const powers = Array.from({ length: 17 }, (_, i) => 2 ** i).filter((power) => power < max);
  return [...powers, max];
}

function mostThreads({ cores, instances, forwardMs }: { cores: number; instances: number; forwardMs: number }): number {
  const perInstance = Math.max(1, Math.floor(cores / instances));
  return forwardMs >= LONG_FORWARD_MS ? perInstance : Math.max(1, Math.min(perInstance, cores - 1));
}

/**
 * The tensors of the example, in the order of their declarations. Without an example the tensors are zeros.
 * @returns undefined if there is no example and a dimension has no fixed size
 */
export function exampleOrZeros(
  inputs: TensorSpecs,
  example: Readonly<Record<string, Tensor>> | undefined,
): readonly Tensor[] | undefined {
  const item = example ?? zeros(inputs);
  return item && itemCheck(inputs)(item).tensors.map(copied);
}

function zeros(inputs: TensorSpecs): Record<string, Tensor> | undefined {
  const item: Record<string, Tensor> = {};
  for (const [name, { dtype, dims }] of Object.entries(inputs)) {
    const shape = fixedShape(dims);
    if (shape === undefined) return undefined;
    item[name] = { dtype, shape, data: new arrayTypes[dtype](countOf(shape)) };
  }
  return item;
}
