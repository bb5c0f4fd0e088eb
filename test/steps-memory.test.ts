/** Device memory of a model with `step`: steps that do not fit, and the tensors in the states of items. */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Steps } from "../src/author/session.ts";
import { SconceError } from "../src/base/errors.ts";
import type { NativeTensor } from "../src/engine/native/native-tensor.ts";
import { closeEngines, counting, number, numberOf, opened, overRunners } from "./helpers/counting-steps.ts";
import { deviceTensors } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { until } from "./helpers/running.ts";

beforeAll(deviceTensors, 600_000);
afterEach(closeEngines);

describe("with too little device memory", () => {
  const lacking = () => new SconceError("out_of_memory", "too little memory");

  test("later steps are smaller", async () => {
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

  test("an item whose begin does not fit begins again beside fewer items, which keep their states", async () => {
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
    expect(begun).toEqual(["10 beside 0", "20 beside 1", "30 beside 2", "40 beside 3", "40 beside 2", "40 beside 1"]);
  });

  test("an item whose step does not fit alone begins again with new parts, once an item that waited longer has run", async () => {
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
    expect(groups).toEqual(["10,20", "10,20", "10", "20", "10", "30", "30", "30", "20", "20", "20"]);
    expect(parts.get("20")).toEqual([21, 22, 23]);
  });

  test("an item that does not fit waits for the items of other runners, too", async () => {
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

  test("an item that does not fit without neighbours fails, and other items run", async () => {
    const { count } = await opened(
      counting((states) => {
        if (states.some(({ from }) => from === 20)) throw lacking();
      }),
    );
    const results = [10, 20, 30].map((from) => count(`${from}`, from, from + 3));
    expect(await failure(results[1] ?? Promise.resolve())).toBe("out_of_memory: too little memory");
    expect([await results[0], await results[2]]).toEqual([13, 33]);
  });

  test("tensors of a failed step are freed before its halves run, and tensors of each half before the next", async () => {
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

describe("tensors in states", () => {
  test("live until a step replaces them or their item ends; the end of a neighbour does not end them", async () => {
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
            // Counts steps instead of reading the tensor, because reading would copy it off the device.
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
        // A step of 4 items does not fit and runs as two steps of 2.
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

  test("that cannot be searched fail only their item", async () => {
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
