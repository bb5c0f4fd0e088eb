/** Runs before the server is ready: first runs compile code, and give the time of a forward pass. */
import { availableParallelism } from "node:os";
import { arrayTypes, countOf, fixedShape, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import { hasCode } from "../base/errors.ts";
import { slowStep } from "../base/slow-step.ts";
import { fixedBatchFault, forwardFault } from "./forward-fault.ts";
import { copied, itemCheck } from "./item-check.ts";
import type { Runner } from "./runner.ts";

/** A forward pass of this length leaves the JS thread little to do beside it, so it may use every core. */
const LONG_FORWARD_MS = 50;
/** Time limit for warm-up batches of more than one item. */
const WARM_UP_BUDGET_MS = 1500;
/** On a GPU, TorchScript profiles its first runs and compiles in the second and third. */
const RUNS = 3;
/** The native addon times packed and plain layers in the first runs: see native/faster_form.h. */
const SHORT_RUNS = 33;
/** Time limit for runs beyond RUNS. */
const SHORT_RUNS_MS = 40;
/** Once all is compiled, runs of this length together say enough. */
const ENOUGH_MS = 200;
/** Twice the threads are worth having when a forward pass takes less than this part of the time. */
const WORTH_MORE_THREADS = 0.9;

export interface WarmUpOptions {
  /** Opened with `threads`, or with one. */
  readonly runners: readonly Runner[];
  readonly inputs: TensorSpecs;
  /** Tensors of one item; without them zeros are made where the declared sizes allow it. */
  readonly item: Readonly<Record<string, Tensor>> | undefined;
  readonly maxBatchSize: number;
  /** The operator's or author's setting; undefined for the fastest count. */
  readonly threads: number | undefined;
  /** Warms with the powers of two up to a full batch too. */
  readonly everySize?: boolean;
  /** Default: those that this process may use. */
  readonly cores?: number;
  /** A clock in milliseconds. */
  readonly now?: () => number;
}

/** Measurements of one runner. */
interface Measured {
  /** The requested size, halved until a batch fitted into the device's memory. */
  readonly maxBatchSize: number;
  /** Milliseconds of one forward pass, by batch size; empty when nothing could be run. */
  readonly forwardMs: ReadonlyMap<number, number>;
}

export interface WarmUpResult extends Measured {
  readonly threads: number;
}

/**
 * Warms every runner with one item and with a full batch, and finds the fastest count of threads.
 * @throws SconceError if the weights or the run contradict the declaration, `out_of_memory` if one item does not fit
 */
export async function warmUp(options: WarmUpOptions): Promise<WarmUpResult> {
  const { runners, inputs, item, maxBatchSize, threads } = options;
  const { cores = availableParallelism(), now = () => performance.now(), everySize = false } = options;
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

/** Runs of one runner with one item, once or many times in a batch. */
class Trials {
  readonly #runner: Runner;
  readonly #one: readonly Tensor[];
  readonly #now: () => number;
  readonly #everySize: boolean;
  /** The largest batch so far. */
  #worked = 0;

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

  /** Times one item, and the largest batch that fits into memory, if that does not take too long. */
  async measure(asked: number, enoughMs = Infinity): Promise<Measured> {
    let itemMs = await this.#time(1, enoughMs).catch((error: unknown) => this.#failedAlone(error, asked));
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
        // The half runs next. After a GPU ran the half already, this size was the last.
        if (!forwardMs.has(maxBatchSize)) i -= 1;
        else break;
      }
    }
    return { maxBatchSize, forwardMs };
  }

  /** Whether a batch would have run says more of an export than the words of libtorch. */
  async #failedAlone(error: unknown, asked: number): Promise<never> {
    if (asked === 1 || hasCode(error, "out_of_memory")) throw error;
    const batch = Array<readonly Tensor[]>(asked).fill(this.#one);
    const works = await this.#runner.run(batch).then(
      () => true,
      () => false,
    );
    throw works ? fixedBatchFault(error, asked) : error;
  }

  /** Doubles the threads while the largest measured batch becomes clearly faster. */
  async fastestThreads({ forwardMs }: Measured, cores: number, instances: number): Promise<number> {
    const size = Math.max(...forwardMs.keys());
    let [best, bestMs] = [1, forwardMs.get(size) ?? 0];
    for (;;) {
      const next = Math.min(2 * best, mostThreads({ cores, instances, forwardMs: bestMs }));
      if (next <= best) break;
      await this.#runner.setThreads(next);
      const ms = await this.#time(size, ENOUGH_MS);
      if (ms > WORTH_MORE_THREADS * bestMs) break;
      [best, bestMs] = [next, ms];
    }
    await this.#runner.setThreads(best);
    return best;
  }

  /** The shortest of a few runs; stops earlier once the runs took `enoughMs` together. */
  async #time(size: number, enoughMs: number): Promise<number> {
    const batch = Array<readonly Tensor[]>(size).fill(this.#one);
    const worked = this.#worked;
    const doing = `Warming up with ${size === 1 ? "one item" : `a batch of ${size}`}`;
    const begun = this.#now();
    let shortest = Infinity;
    for (let i = 0; i < SHORT_RUNS; i++) {
      if (i > 0 && this.#now() - begun >= (i < RUNS ? enoughMs : SHORT_RUNS_MS)) break;
      const begin = this.#now();
      await slowStep(doing, this.#runner.rehearse?.(batch) ?? this.#runner.run(batch)).catch((error: unknown) => {
        throw forwardFault(error, { size, worked });
      });
      shortest = Math.min(shortest, this.#now() - begin);
    }
    this.#worked = Math.max(worked, size);
    return shortest;
  }
}

/** 1, 2, 4, … and at last `max`. */
export function doublings(max: number): number[] {
  const powers = Array.from({ length: 17 }, (_, i) => 2 ** i).filter((power) => power < max);
  return [...powers, max];
}

/** Maximum threads of one instance for a forward pass of this length. */
function mostThreads({ cores, instances, forwardMs }: { cores: number; instances: number; forwardMs: number }): number {
  const perInstance = Math.max(1, Math.floor(cores / instances));
  return forwardMs >= LONG_FORWARD_MS ? perInstance : Math.max(1, Math.min(perInstance, cores - 1));
}

/**
 * The tensors of the example, in the order of their declarations. Without an example the tensors are zeros.
 * @returns undefined without an example when a size is free
 */
export function exampleOrZeros(
  inputs: TensorSpecs,
  example: Readonly<Record<string, Tensor>> | undefined,
): readonly Tensor[] | undefined {
  const item = example ?? zeros(inputs);
  return item && copied(itemCheck(inputs)(item).tensors);
}

/** An item of zeros; undefined when a dimension has no fixed size. */
function zeros(inputs: TensorSpecs): Record<string, Tensor> | undefined {
  const item: Record<string, Tensor> = {};
  for (const [name, { dtype, dims }] of Object.entries(inputs)) {
    const shape = fixedShape(dims);
    if (shape === undefined) return undefined;
    item[name] = { dtype, shape, data: new arrayTypes[dtype](countOf(shape)) };
  }
  return item;
}
