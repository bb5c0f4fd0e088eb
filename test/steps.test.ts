/** Continuous batching: items of a model with `step` join and leave a batch between steps. */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Tensor } from "../src/author/tensor.ts";
import type { BatchItem } from "../src/engine/batching/batching.ts";
import { closeEngines, counting, gated, numberOf, opened, overRunners } from "./helpers/counting-steps.ts";
import { deviceTensors } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { until } from "./helpers/running.ts";

beforeAll(deviceTensors, 600_000);
afterEach(closeEngines);

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

  test("waits for a free place, and the oldest items get places first", async () => {
    const { steps, groups, next } = gated();
    const { count } = await opened(steps, { maxBatchSize: 2 });
    const results = [1, 2, 3, 4].map((from) => count(`one ${from}`, 10 * from, 10 * from + 1));
    results.push(count("other", 50, 51));
    for (let steps = 1; steps <= 4; steps++) await next(Math.min(steps, 3));
    expect(await Promise.all(results)).toEqual([11, 21, 31, 41, 51]);
    expect(groups).toEqual([[10, 20], [30, 40], [50]]);
  });

  test("leaves before the next step if its prediction is canceled, and other items continue", async () => {
    const { steps, groups, next } = gated();
    const { cancel, count } = await opened(steps);
    void count("canceled", 10, 99);
    const other = count("other", 20, 23);
    await until(() => groups.length === 1);
    cancel("canceled");
    await next(2);
    await next(3);
    await next(3);
    expect(await other).toBe(23);
    expect(groups).toEqual([[10, 20], [20], [20]]);
  });

  test("fails alone if `begin` throws for it", async () => {
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

describe("an item that may have ended the engine process", () => {
  test("has all runners to itself from its first step to its last", async () => {
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
    // The item 40 must run alone, so no other item takes part in its steps.
    const at = groups.indexOf("40");
    expect(groups.slice(at, at + 2)).toEqual(["40", "40"]);
    expect(ends.toSorted()).toEqual([12, 22, 32, 42, 52]);
  });

  test("leaves the waiting items to all runners afterwards", async () => {
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

  test("does not hold up other items after its prediction was canceled", async () => {
    const { steps, groups, next } = gated();
    const canceled = new Set<unknown>();
    const { engine, submit, ends } = await overRunners(steps, { isNeeded: ({ lane }) => !canceled.has(lane) });
    submit(10);
    await until(() => groups.length === 1);
    const lane = {};
    submit(20, { isAlone: true, lane });
    submit(30);
    // Lets the engine find that 20 has to wait.
    await Bun.sleep(0);
    canceled.add(lane);
    engine.removeUnneeded();
    await until(() => groups.length === 2);
    expect(groups).toEqual([[10], [30]]);
    await next(4);
    await next(4);
    await until(() => ends.length === 2);
  });
});

test("items that end in the same step are reported together, and so are their parts", async () => {
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

test("an error in the receiver of parts fails the items of the step, and later items run", async () => {
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

test("an item whose output nobody needs leaves without a call of cancel", async () => {
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

test("items of a failed step whose outputs nobody needs do not run in its halves", async () => {
  const failed: string[] = [];
  const groups: number[][] = [];
  let isNeeded = true;
  const steps = counting((states) => {
    groups.push(states.map(({ from }) => from));
    isNeeded = false;
    throw new Error("a bad item");
  });
  const { submit } = await overRunners(
    steps,
    { isNeeded: () => isNeeded, failed: (_, { code }) => failed.push(code) },
    1,
  );
  for (const from of [10, 20, 30, 40]) submit(from);
  await until(() => failed.length === 4);
  expect([failed, groups]).toEqual([Array(4).fill("canceled"), [[10, 20, 30, 40]]]);
});

test("unfinished and waiting items fail when the engine closes", async () => {
  const { steps, groups, next } = gated();
  const { close, count } = await opened(steps, { maxBatchSize: 1 });
  const ends = [count("running", 10, 99), count("waiting", 20, 99)].map((each) => failure(each));
  await until(() => groups.length === 1);
  await close();
  void next(1);
  for (const end of await Promise.all(ends)) expect(end).toStartWith("session_closed");
});
