/** Continuous batching: items of a model with `step` join and leave between steps. */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Steps } from "../src/author/session.ts";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { BatchEngineListener, BatchItem } from "../src/engine/batch-engine.ts";
import type { BatchRun, Item, Rows } from "../src/engine/engine.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import type { NativeTensor } from "../src/engine/native/native-tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import type { Runner } from "../src/engine/runner.ts";
import { engineOver } from "../src/engine/step-engine.ts";
import { StepRunner } from "../src/engine/step-runner.ts";
import { tryOutputs } from "../src/server/flow/trial.ts";
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

const open: { close(): Promise<void> }[] = [];
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
    // The parts of an item start over.
    dispatched: (jobs) => {
      for (const { name } of jobs) parts.delete(name);
    },
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

async function runnerOf(predict: Steps): Promise<Runner & AsyncDisposable> {
  const [runner] = await openRunners({ ...where, weights: { model: path }, inputs, outputs, instances: 1, predict });
  if (runner === undefined) throw new Error("no runner was opened");
  return Object.assign(runner, { [Symbol.asyncDispose]: () => runner.dispose() });
}

/** An engine with runners of 4 items. Each item counts by two. */
async function overRunners(predict: Steps, listener: Partial<BatchEngineListener<BatchItem>> = {}, instances = 2) {
  const runners = await openRunners({ ...where, weights: { model: path }, inputs, outputs, instances, predict });
  const ends: number[] = [];
  const engine = engineOver<BatchItem>({
    runners,
    maxBatchSize: 4,
    maxQueueDelayMs: 0,
    listener: {
      dispatched: () => {},
      finished: (items, [counted]) => void ends.push(...items.map((_, i) => Number(counted?.data[i]))),
      failed: (_, error) => {
        throw error;
      },
      part: () => {},
      isNeeded: () => true,
      ...listener,
    },
  });
  open.push(engine);
  const submit = (from: number, { isAlone = false, lane = {} } = {}) =>
    engine.submit({
      lane,
      key: "",
      padded: new Map(),
      length: 0,
      tensors: [number(from), number(from + 2)],
      isAlone,
      readyAtMs: engine.now(),
      dispatchedAtMs: 0,
    });
  return { engine, submit, ends };
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

describe("with too little device memory", () => {
  const lacking = () => new SconceError("out_of_memory", "too little memory");

  test("steps are smaller", async () => {
    const sizes: number[] = [];
    const { count } = await opened(
      counting((states) => {
        sizes.push(states.length);
        if (states.length > 2) throw lacking();
      }),
    );
    const results = [10, 20, 30, 40].map((from) => count(`${from}`, from, from + 2));
    expect(await Promise.all(results)).toEqual([12, 22, 32, 42]);
    expect(sizes).toEqual([4, 2, 2, 2, 2]);
  });

  test("an item begins again beside half as many items, whose states stay", async () => {
    const begun: string[] = [];
    let running = 0;
    const steps = counting();
    const { count } = await opened({
      begin: (given, sessions) => {
        begun.push(`${numberOf(given.from)} beside ${running}`);
        if (numberOf(given.from) === 40 && running > 1) throw lacking();
        running += 1;
        return steps.begin(given, sessions);
      },
      step: async (states, sessions) => {
        const results = (await steps.step(states, sessions)) as { outputs?: unknown }[];
        running -= results.filter(({ outputs }) => outputs !== undefined).length;
        return results;
      },
    });
    const results = [10, 20, 30, 40].map((from, i) => count(`${from}`, from, from + 4 + i));
    expect(await Promise.all(results)).toEqual([14, 25, 36, 47]);
    expect(begun).toEqual(["10 beside 0", "20 beside 1", "30 beside 2", "40 beside 3", "40 beside 1"]);
  });

  test("an item whose step fails begins again with its parts, and no other item joins it while it runs without neighbours", async () => {
    const groups: string[] = [];
    const { count, parts } = await opened(
      counting((states) => {
        groups.push(states.map(({ from }) => from).join());
        if (states.some(({ from, count }) => from === 20 && count === 21) && holds(10)) throw lacking();
      }),
      { maxBatchSize: 2 },
    );
    const holds = (from: number) => !ended.includes(from);
    const ended: number[] = [];
    const results = [10, 20, 30].map((from) => count(`${from}`, from, from + 3).finally(() => ended.push(from)));
    expect(await Promise.all(results)).toEqual([13, 23, 33]);
    expect(groups).toEqual(["10,20", "10,20", "10", "20", "10", "20", "20", "20", "30", "30", "30"]);
    expect(parts.get("20")).toEqual([21, 22, 23]);
  });

  test("an item waits for the items of other runners too", async () => {
    const ended: number[] = [];
    const { submit } = await overRunners(
      counting((states) => {
        if (states.some(({ from }) => from === 20) && !ended.includes(12)) throw lacking();
      }),
      { finished: (_, [counted]) => void ended.push(numberOf(counted)) },
    );
    for (const from of [10, 20]) submit(from);
    await until(() => ended.length === 2);
    expect(ended).toEqual([12, 22]);
  });

  test("an item without neighbours fails, and other items run", async () => {
    const { count } = await opened(
      counting((states) => {
        if (states.some(({ from }) => from === 20)) throw lacking();
      }),
    );
    const results = [10, 20, 30].map((from) => count(`${from}`, from, from + 3));
    expect(await failure(results[1] ?? Promise.resolve())).toBe("out_of_memory: too little memory");
    expect([await results[0], await results[2]]).toEqual([13, 33]);
  });

  test("the tensors of a failed step are freed before its halves run, and those of each half before the next", async () => {
    const made: NativeTensor[] = [];
    const { count } = await opened({
      begin: ({ to }) => ({ to: numberOf(to) }),
      step: async (given, { model }) => {
        expect(made.filter(({ isTemporary }) => isTemporary)).toEqual([]);
        const states = given as { to: number }[];
        made.push((await model?.call("forward", number(1))) as NativeTensor);
        if (states.length > 1) throw lacking();
        return states.map(({ to }) => ({ outputs: { counted: number(to) } }));
      },
    });
    expect(await Promise.all([1, 2, 3].map((to) => count(`${to}`, 0, to)))).toEqual([1, 2, 3]);
    expect(made).toHaveLength(5);
  });
});

describe("an item that may have ended the process", () => {
  test("has all runners to itself, from its first to its last step", async () => {
    const groups: string[] = [];
    const { submit, ends } = await overRunners(
      counting((states) => groups.push(states.map(({ from }) => from).join())),
    );
    for (const from of [10, 20, 30]) submit(from, { isAlone: from === 20 });
    await until(() => ends.length > 0);
    submit(40, { isAlone: true });
    submit(50);
    await until(() => ends.length > 4);
    expect(groups.slice(0, 2)).toEqual(["20", "20"]);
    // Whichever joins first, 40 has no neighbour on either runner.
    const at = groups.indexOf("40");
    expect(groups.slice(at, at + 2)).toEqual(["40", "40"]);
    expect(ends.toSorted()).toEqual([12, 22, 32, 42, 52]);
  });

  test("leaves the waiting items to all runners", async () => {
    const { steps, groups, next } = gated();
    const { submit, ends } = await overRunners(steps);
    submit(10, { isAlone: true });
    for (const from of [20, 30, 40, 50]) submit(from);
    await next(1);
    await next(2);
    await next(4);
    expect(groups).toEqual([[10], [10], [20, 30], [40, 50]]);
    await next(6);
    await next(6);
    await until(() => ends.length === 5);
  });

  test("no longer holds up other items when it is canceled", async () => {
    const { steps, groups, next } = gated();
    const { engine, submit, ends } = await overRunners(steps);
    submit(10);
    await until(() => groups.length === 1);
    const lane = {};
    submit(20, { isAlone: true, lane });
    submit(30);
    // The engine has seen that 20 must wait.
    await Bun.sleep(0);
    engine.cancel(lane);
    await until(() => groups.length === 2);
    expect(groups).toEqual([[10], [30]]);
    await next(4);
    await next(4);
    await until(() => ends.length === 2);
  });
});

test("items that end together are reported together, and their parts", async () => {
  const frames: string[] = [];
  const frame =
    (kind: string) =>
    (items: readonly BatchItem[], [rows]: readonly Tensor[]) =>
      void frames.push(`${kind} ${rows?.data.join()} of ${items.length}, shape ${rows?.shape}`);
  const { submit } = await overRunners(counting(), { part: frame("part"), finished: frame("outputs") }, 1);
  for (const from of [10, 20, 30]) submit(from);
  await until(() => frames.length === 3);
  expect(frames).toEqual([
    "part 11,21,31 of 3, shape 3",
    "part 12,22,32 of 3, shape 3",
    "outputs 12,22,32 of 3, shape 3",
  ]);
});

test("an error of the receiver of parts fails the items of that step, and later items run", async () => {
  const failed: string[] = [];
  let isBroken = true;
  const { submit, ends } = await overRunners(counting(), {
    part: () => {
      if (isBroken) throw new Error("the receiver is broken");
    },
    failed: (_, { message }) => failed.push(message),
  });
  submit(10);
  await until(() => failed.length > 0);
  isBroken = false;
  submit(20);
  await until(() => ends.length > 0);
  expect([failed, ends]).toEqual([["the receiver is broken"], [22]]);
});

test("an item is canceled when its output is not needed, without a call of cancel", async () => {
  const failed: string[] = [];
  let isNeeded = true;
  const { steps, groups, next } = gated();
  const { submit } = await overRunners(steps, {
    isNeeded: () => isNeeded,
    failed: (_, { code }) => failed.push(code),
  });
  submit(10);
  await until(() => groups.length === 1);
  isNeeded = false;
  await next(1);
  await until(() => failed.length > 0);
  expect([failed, groups]).toEqual([["canceled"], [[10]]]);
});

describe("tensors of states", () => {
  test("live until a step replaces them or their item ends, and neighbours do not end them", async () => {
    const replaced: NativeTensor[] = [];
    const loose: NativeTensor[] = [];
    const { count } = await opened({
      begin: async ({ from, to }, { model }) => {
        loose.push((await model?.call("forward", from ?? null)) as NativeTensor);
        return { list: [new Map([["at", await model?.call("forward", from ?? null)]])], to: numberOf(to) };
      },
      step: async (given, { model }) => {
        for (const each of [...replaced, ...loose]) expect(each.isTemporary).toBe(false);
        const states = given as { list: Map<string, NativeTensor>[]; to: number }[];
        return Promise.all(
          states.map(async ({ list: [state], to }) => {
            const at = state?.get("at") as NativeTensor;
            expect(at.isTemporary).toBe(true);
            const next = (await model?.call("forward", at)) as NativeTensor<"float32">;
            replaced.push(at);
            // Reading an element would move the tensor.
            const isLast = replaced.length >= to;
            return isLast ? { outputs: { counted: next } } : { state: { list: [new Map([["at", next]])], to } };
          }),
        );
      },
    });
    expect(await Promise.all([count("a", 1, 5), count("b", 10, 6)])).toEqual([5, 14]);
    expect(replaced).toHaveLength(6);
    for (const each of [...replaced, ...loose]) expect(() => each.data).toThrow("was freed");
  });

  test("are searched once a step", async () => {
    let searches = 0;
    let calls = 0;
    const state = async (to: number, sessions: Parameters<Steps["begin"]>[1]) => ({
      to,
      at: await sessions.model?.call("forward", number(1)),
      get searched() {
        searches += 1;
        return true;
      },
    });
    const { count } = await opened({
      begin: ({ to }, sessions) => state(numberOf(to), sessions),
      step: (given, sessions) => {
        const states = given as { to: number }[];
        calls += 1;
        // Steps of 4 become steps of 2.
        if (states.length > 2) throw new SconceError("out_of_memory", "too many");
        return Promise.all(
          states.map(async ({ to }) =>
            to === 0 ? { outputs: { counted: number(0) } } : { state: await state(to - 1, sessions) },
          ),
        );
      },
    });
    await Promise.all([1, 2, 3, 4].map((name) => count(`${name}`, 0, 3)));
    expect([calls, searches]).toEqual([9, 16]);
  });

  test("that cannot be searched fail their item alone", async () => {
    const { count } = await opened({
      begin: ({ from }) => numberOf(from),
      step: (states) =>
        states.map((from) => {
          if (from !== 20) return { outputs: { counted: number(Number(from)) } };
          return {
            state: {
              get tensor() {
                throw new Error("no tensor here");
              },
            },
          };
        }),
    });
    const [good, bad] = [count("good", 10, 11), count("bad", 20, 21)];
    expect(await failure(bad)).toBe("run_failed: step failed: no tensor here");
    expect(await good).toBe(10);
  });
});

describe("the trial of a batch", () => {
  test("does not change its items, even if begin writes into its tensors", async () => {
    await using runner = await runnerOf({
      begin: ({ from }) => {
        const state = numberOf(from);
        (from as Tensor<"float32">).data.fill(7);
        return state;
      },
      step: (states) => states.map((state) => ({ outputs: { counted: number(Number(state)) } })),
    });
    const item = [number(3), number(4)];
    expect(await runner.run([item])).toEqual([tensor(Float32Array.of(3), [1])]);
    expect(item).toEqual([number(3), number(4)]);
  });

  test("is no batch of zeros, which may have no last step", async () => {
    const given: number[] = [];
    await using runner = await runnerOf({
      begin: ({ to }) => ({ count: 0, to: numberOf(to) }),
      step: (states) =>
        (states as { count: number; to: number }[]).map(({ count, to }) => {
          given.push(to);
          return count + 1 === to ? { outputs: { counted: number(to) } } : { state: { count: count + 1, to } };
        }),
    });
    const item = [number(0), number(3)];
    const trial = { tensors: { inputs, outputs, parts: outputs }, maxBatchSize: 3, isOnCpu: true };
    const [tried] = await tryOutputs(runner, { ...trial, items: [item, item] });
    expect(tried).toMatchObject({ again: 0, together: 0, fault: undefined });
    expect(new Set(given)).toEqual(new Set([3]));
  });

  const endless: Steps = { begin: () => 0, step: (states) => states.map((state) => ({ state })) };

  test("ends after 10,000 steps", async () => {
    await using runner = await runnerOf(endless);
    expect(await failure(runner.run([[number(0), number(0)]]))).toBe(
      "run_failed: the example did not end in 10000 steps; return { outputs } in the last step, or declare a shorter example",
    );
  });

  test("ends after ten minutes", async () => {
    let nowMs = 0;
    const now = () => (nowMs += 60_000);
    const runner = new StepRunner({ sessions: {}, steps: endless, inputs, outputs, parts: outputs, now });
    expect(await failure(runner.run([[number(0), number(0)]]))).toStartWith(
      "run_failed: the example did not end in 600 s (10 steps)",
    );
  });
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
