/** Continuous batching: items of a model with `step` join and leave between steps. */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { DeviceTensor, Steps } from "../src/author/session.ts";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { BatchItem } from "../src/engine/batch-engine.ts";
import type { BatchRun, Item, Rows } from "../src/engine/engine.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import { NativeTensor } from "../src/engine/native/native-tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import { engineOver } from "../src/engine/step-engine.ts";
import { failure } from "./helpers/failure.ts";
import { made } from "./helpers/made.ts";
import { until } from "./helpers/running.ts";

let path: string;

beforeAll(async () => {
  const script = join(import.meta.dir, "helpers/device_tensors.py");
  path = join(await made({ name: "device-tensors", script }), "device-tensors.pt");
}, 600_000);

/** An item that counts from `from` to `to`, one a step. */
interface Counting {
  readonly from: number;
  readonly count: number;
  readonly to: number;
}

interface Job extends Item {
  readonly name: string;
}

const where = { operators: [], devices: ["cpu"], threads: 1 };
const inputs = { from: float32(), to: float32() };
const outputs = { counted: float32() };
const number = (value: number) => tensor(Float32Array.of(value), []);
const numberOf = (given: Tensor | undefined) => Number(given?.data[0]);

/** Counts by one a step, with a part for each step. `onStep` sees the states before each step. */
function counting(onStep: (states: readonly Counting[]) => unknown = () => {}): Steps {
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

const open: LocalEngine<Job>[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
});

async function opened(steps: Steps, { maxBatchSize = 4, instances = 1 } = {}) {
  const runners = await openRunners({
    ...where,
    weights: { model: path },
    instances,
    predict: steps,
    inputs,
    outputs,
  });
  const runs: BatchRun[] = [];
  const parts = new Map<string, number[]>();
  const results = new Map<Job, PromiseWithResolvers<number>>();
  const observer = { ran: (run: BatchRun) => runs.push(run) };
  const engine = new LocalEngine<Job>({ runners, inputs, outputs, maxBatchSize, maxQueueDelayMs: 0, observer });
  engine.listener = {
    dispatched: () => {},
    finished: (job, rows: Rows) => results.get(job)?.resolve(numberOf(rows.counted)),
    failed: (job, error) => results.get(job)?.reject(error),
    part: ({ name }, rows) => parts.set(name, [...(parts.get(name) ?? []), numberOf(rows.counted)]),
  };
  const count = (name: string, from: number, to: number, lane: object = {}): Promise<number> => {
    const job = { name, lane, index: 0 };
    const result = Promise.withResolvers<number>();
    results.set(job, result);
    engine.submit(job, { from: number(from), to: number(to) });
    return result.promise;
  };
  open.push(engine);
  return { engine, count, runs, parts };
}

/** Stops each step until `next`. */
function gated(): {
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

describe("an item", () => {
  test("joins before the next step, and leaves after its last", async () => {
    const { steps, groups, next } = gated();
    const { count, runs, parts } = await opened(steps);
    const long = count("long", 10, 13);
    await until(() => groups.length === 1);
    const short = count("short", 20, 21);
    await Bun.sleep(0);
    await next(2);
    await next(3);
    await next(3);
    expect(await Promise.all([long, short])).toEqual([13, 21]);
    expect(groups).toEqual([[10], [10, 20], [10]]);
    expect(runs.map(({ size, cause }) => [size, cause])).toEqual([1, 2, 1].map((size) => [size, "step"]));
    expect(parts).toEqual(
      new Map([
        ["long", [11, 12, 13]],
        ["short", [21]],
      ]),
    );
  });

  test("waits for a free place, and lanes take turns", async () => {
    const { steps, groups, next } = gated();
    const { count } = await opened(steps, { maxBatchSize: 2 });
    const [one, other] = [{}, {}];
    const results = [1, 2, 3, 4].map((from) => count(`one ${from}`, 10 * from, 10 * from + 1, one));
    results.push(count("other", 50, 51, other));
    for (let steps = 1; steps <= 4; steps++) await next(Math.min(steps, 3));
    expect(await Promise.all(results)).toEqual([11, 21, 31, 41, 51]);
    expect(groups.map((group) => group.toSorted())).toEqual([[10, 50], [20, 30], [40]]);
  });

  test("leaves before the next step when its prediction is canceled, and others continue", async () => {
    const { steps, groups, next } = gated();
    const { engine, count } = await opened(steps);
    const lane = {};
    void count("canceled", 10, 99, lane);
    const other = count("other", 20, 23);
    await until(() => groups.length === 1);
    engine.cancel(lane);
    await next(2);
    await next(3);
    await next(3);
    expect(await other).toBe(23);
    expect(groups).toEqual([[10, 20], [20], [20]]);
  });

  test("fails alone if its begin throws", async () => {
    const steps = counting();
    const { count } = await opened({
      ...steps,
      begin: (given, sessions) => {
        if (numberOf(given.from) < 0) throw new Error("no such number");
        return steps.begin(given, sessions);
      },
    });
    const [bad, good] = [count("bad", -1, 2), count("good", 1, 3)];
    expect(await failure(bad)).toBe("run_failed: begin failed: no such number");
    expect(await good).toBe(3);
  });

  test("fails alone if a step with it throws: the step runs again in halves, with the same states", async () => {
    const groups: number[][] = [];
    const { count } = await opened(
      counting((states) => {
        groups.push(states.map(({ count }) => count));
        if (states.some(({ count }) => count === 31)) throw new Error("thirty-one");
      }),
    );
    const results = [10, 20, 30, 40].map((from) => count(`${from}`, from, from + 3));
    expect(await failure(results[2] ?? Promise.resolve())).toBe("run_failed: step failed: thirty-one");
    expect(await Promise.all(results.toSpliced(2, 1))).toEqual([13, 23, 43]);
    expect(groups.slice(1, 6)).toEqual([[11, 21, 31, 41], [11, 21], [31, 41], [31], [41]]);
  });
});

test("steps are smaller after the device had too little memory", async () => {
  const sizes: number[] = [];
  const { count } = await opened(
    counting((states) => {
      sizes.push(states.length);
      if (states.length > 2) throw new SconceError("out_of_memory", "too many");
    }),
  );
  const results = [10, 20, 30, 40].map((from) => count(`${from}`, from, from + 2));
  expect(await Promise.all(results)).toEqual([12, 22, 32, 42]);
  expect(sizes).toEqual([4, 2, 2, 2, 2]);
});

test("an item that may have ended the process has all runners to itself, from its first to its last step", async () => {
  const groups: string[] = [];
  const runners = await openRunners({
    ...where,
    weights: { model: path },
    inputs,
    outputs,
    instances: 2,
    predict: counting((states) => groups.push(states.map(({ from }) => from).join())),
  });
  const ends: number[] = [];
  const engine = engineOver<BatchItem>({
    runners,
    maxBatchSize: 4,
    maxQueueDelayMs: 0,
    listener: {
      dispatched: () => {},
      finished: (_, [counted]) => ends.push(numberOf(counted)),
      failed: (_, error) => {
        throw error;
      },
      part: () => {},
      isNeeded: () => true,
    },
  });
  const submit = (from: number, isAlone: boolean) =>
    engine.submit({
      lane: {},
      key: "",
      padded: new Map(),
      length: 0,
      tensors: [number(from), number(from + 2)],
      isAlone,
      readyAtMs: engine.now(),
      dispatchedAtMs: 0,
    });
  for (const from of [10, 20, 30]) submit(from, from === 20);
  await until(() => ends.length > 0);
  submit(40, true);
  submit(50, false);
  await until(() => ends.length > 4);
  await engine.close();
  expect(groups.slice(0, 2)).toEqual(["20", "20"]);
  // Whichever joins first, 40 has no neighbour on either runner.
  const at = groups.indexOf("40");
  expect(groups.slice(at, at + 2)).toEqual(["40", "40"]);
  expect(ends.toSorted()).toEqual([12, 22, 32, 42, 52]);
});

test("tensors of states live from step to step, and are freed when no state has them", async () => {
  const tensors: DeviceTensor[][] = [];
  const { count } = await opened({
    begin: async ({ from, to }, { model }) => ({
      at: await model?.call("forward", from ?? null),
      to: numberOf(to),
      loose: await model?.call("forward", from ?? null),
    }),
    step: async (given, { model }) => {
      const states = given as { at: DeviceTensor; to: number }[];
      tensors.push(states.map(({ at }) => at));
      return Promise.all(
        states.map(async ({ at, to }) => {
          const next = (await model?.call("forward", at)) as DeviceTensor;
          return tensors.length >= to ? { outputs: { counted: next } } : { state: { at: next, to } };
        }),
      );
    },
  });
  expect(await count("a", 1, 3)).toBe(5);
  const states = tensors.flat();
  await until(() => states.every((each) => each instanceof NativeTensor && !each.isTemporary));
  for (const each of states) expect(() => each.data).toThrow("was freed");
});

describe("a step fails, and names the fix, when it returns", () => {
  const cases: [string, unknown, string][] = [
    ["no list", {}, "step gave object for 1 states; return a list with a result for each state"],
    ["too few results", [], "step gave a list of 0 for 1 states; return a list with a result for each state"],
    [
      "a result without a state",
      [{}],
      "step gave a result without a state; each result is { state } or { outputs }, and may have a part",
    ],
    [
      "an output of another shape",
      [{ outputs: { counted: tensor(new Float32Array(2), [2]) } }],
      'step gave "counted" as',
    ],
    ["too few outputs", [{ outputs: {} }], 'step gave no tensor "counted"'],
  ];
  test.each(cases)("%s", async (_, result, message) => {
    const { count } = await opened({ begin: () => 0, step: () => result });
    expect(await failure(count("a", 1, 2))).toContain(message);
  });
});

test("unfinished and waiting items fail when the engine closes", async () => {
  const { steps, groups, next } = gated();
  const { engine, count } = await opened(steps, { maxBatchSize: 1 });
  const ends = [count("running", 10, 99), count("waiting", 20, 99)].map((each) => failure(each));
  await until(() => groups.length === 1);
  await engine.close();
  void next(1);
  for (const end of await Promise.all(ends)) expect(end).toStartWith("session_closed");
});
