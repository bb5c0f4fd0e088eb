/** Engines for a model whose `step` adds one to the count of each item. */
import type { Steps } from "../../src/author/session.ts";
import { float32, type Tensor, tensor } from "../../src/author/tensor.ts";
import { openBatching } from "../../src/engine/batching/batcher.ts";
import type { BatchItem, BatchListener } from "../../src/engine/batching/batching.ts";
import type { BatchRun, Item } from "../../src/engine/engine.ts";
import { openRunners } from "../../src/engine/open-runners.ts";
import { openLocalEngine } from "../../src/engine/remote/local-engine.ts";
import type { Rows } from "../../src/engine/rows.ts";
import type { Runner } from "../../src/engine/runner.ts";
import { deviceTensors } from "./exports.ts";
import { info } from "./remote.ts";
import { until } from "./running.ts";

/** State of an item: it counts from `from` to `to`, one per step, and is at `count`. */
export interface Counting {
  readonly from: number;
  readonly count: number;
  readonly to: number;
}

export interface Job extends Item {
  readonly name: string;
}

export const where = { operators: [], devices: ["cpu"], threads: 1 };
export const inputs = { from: float32(), to: float32() };
export const outputs = { counted: float32() };
export const number = (value: number) => tensor(Float32Array.of(value), []);
export const numberOf = (given: Tensor | undefined) => Number(given?.data[0]);

/**
 * The hooks `begin` and `step` of the model. Each step adds one, and yields the count as a part. `onStep` gets the
 * states before each step.
 */
export function counting(onStep: (states: readonly Counting[]) => unknown = () => {}): Steps {
  return {
    begin: ({ from, to }): Counting => ({ from: numberOf(from), count: numberOf(from), to: numberOf(to) }),
    step: async (states) => {
      const given = states as readonly Counting[];
      await onStep(given);
      return given.map(({ from, count, to }) => {
        const part = { counted: number(count + 1) };
        return count + 1 >= to ? { outputs: part, part } : { state: { from, count: count + 1, to }, part };
      });
    },
  };
}

const open: { close(): Promise<void> }[] = [];
/** Closes all engines that the test has opened. */
export async function closeEngines(): Promise<void> {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
}

export async function opened(steps: Steps, { maxBatchSize = 4, instances = 1 } = {}) {
  const runners = await openRunners({
    ...where,
    weights: { model: await deviceTensors() },
    instances,
    predict: steps,
    inputs,
    outputs,
  });
  const runs: BatchRun[] = [];
  const parts = new Map<string, number[]>();
  const results = new Map<Job, PromiseWithResolvers<number>>();
  const observer = { ran: (run: BatchRun) => runs.push(run) };
  const local = openLocalEngine<Job>({ runners, inputs, outputs, info, maxBatchSize, maxQueueDelayMs: 0, observer });
  const { engine } = local;
  engine.listener = {
    // An item that is dispatched again starts over, so its earlier parts are dropped.
    dispatched: (jobs) => {
      for (const { name } of jobs) parts.delete(name);
    },
    finished: (job, rows: Rows) => results.get(job)?.resolve(numberOf(rows.counted)),
    failed: (job, error) => results.get(job)?.reject(error),
    part: ({ name }, rows) => parts.set(name, [...(parts.get(name) ?? []), numberOf(rows.counted)]),
  };
  const count = (name: string, from: number, to: number): Promise<number> => {
    const job = { name, lane: results.size, index: 0 };
    const result = Promise.withResolvers<number>();
    results.set(job, result);
    engine.submit(job, { from: number(from), to: number(to) });
    return result.promise;
  };
  const cancel = (name: string) => engine.cancel([...results.keys()].filter((job) => job.name === name));
  open.push(local);
  return { count, cancel, close: local.close, runs, parts };
}

export async function runnerOf(predict: Steps): Promise<Runner & AsyncDisposable> {
  const [runner] = await openRunners({
    ...where,
    weights: { model: await deviceTensors() },
    inputs,
    outputs,
    instances: 1,
    predict,
  });
  if (runner === undefined) throw new Error("no runner was opened");
  return Object.assign(runner, { [Symbol.asyncDispose]: () => runner.dispose() });
}

/**
 * Makes batches of up to 4 items. Each item adds one in each of two steps; `ends` collects the final
 * counts.
 */
export async function overRunners(predict: Steps, listener: Partial<BatchListener<BatchItem>> = {}, instances = 2) {
  const runners = await openRunners({
    ...where,
    weights: { model: await deviceTensors() },
    inputs,
    outputs,
    instances,
    predict,
  });
  const ends: number[] = [];
  const engine = openBatching<BatchItem>(
    { runners, maxBatchSize: 4, maxQueueDelayMs: 0 },
    {
      dispatched: () => {},
      finished: (items, [counted]) => void ends.push(...items.map((_, i) => Number(counted?.data[i]))),
      failed: (_, error) => {
        throw error;
      },
      part: () => {},
      isNeeded: () => true,
      ...listener,
    },
  );
  open.push({ close: async () => void (await Promise.all(runners.map((runner) => runner.dispose()))) });
  const submit = (from: number, { isAlone = false, lane = {} } = {}) =>
    engine.submit({
      lane,
      key: "",
      padded: new Map(),
      tensors: [number(from), number(from + 2)],
      isAlone,
      readyAtMs: performance.now(),
      ahead: 0,
    });
  return { engine, submit, ends };
}

/** Hooks that count, where each step waits until the test calls `next`. */
export function gated(): {
  readonly steps: Steps;
  readonly groups: number[][];
  next(groups: number): Promise<void>;
} {
  const groups: number[][] = [];
  let gate = Promise.withResolvers<void>();
  return {
    groups,
    steps: counting(async (states) => {
      groups.push(states.map(({ from }) => from));
      await gate.promise;
    }),
    async next(count) {
      gate.resolve();
      gate = Promise.withResolvers();
      await until(() => groups.length >= count);
    },
  };
}
