/** How a build tries a model with `step`, and what `step` may not return. */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Steps } from "../src/author/session.ts";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { tryOutputs } from "../src/cli/build/trial.ts";
import { StepRunner } from "../src/engine/step-runner.ts";
import { closeEngines, inputs, number, numberOf, opened, outputs, runnerOf } from "./helpers/counting-steps.ts";
import { deviceTensors } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";

beforeAll(deviceTensors, 600_000);
afterEach(closeEngines);

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

  test("uses no batch of zeros, whose steps may never end", async () => {
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
    const trial = { tensors: { inputs, outputs, parts: outputs }, maxBatchSize: 3, isOnCpu: true, isFree: true };
    expect(await tryOutputs(runner, { ...trial, items: [item, item] })).toEqual([]);
    expect(new Set(given)).toEqual(new Set([3]));
  });

  test("runs the example beside a longer item, which shows padding that step takes for a part of a state", async () => {
    const free = { values: float32("length") };
    const meanOver = (sizeOf: (longest: number, own: number) => number) =>
      new StepRunner({
        sessions: {},
        inputs: free,
        outputs,
        parts: outputs,
        steps: {
          begin: ({ values }) => [...(values as Tensor<"float32">).data],
          step: (states) => {
            const texts = states as number[][];
            const longest = Math.max(...texts.map(({ length }) => length));
            const sum = (text: number[]) => text.reduce((total, value) => total + value, 0);
            return texts.map((text) => ({
              outputs: { counted: number(sum(text) / sizeOf(longest, text.length)) },
            }));
          },
        },
      });
    const item = [tensor(Float32Array.of(1, 2, 3), [3])];
    const trial = { tensors: { inputs: free, outputs, parts: outputs }, maxBatchSize: 3, isOnCpu: true, isFree: true };
    const wrong = meanOver((longest) => longest);
    expect(await tryOutputs(wrong, { ...trial, items: [item, item] })).toMatchObject([{ kind: "padding" }]);
    const right = meanOver((_, own) => own);
    expect(await tryOutputs(right, { ...trial, items: [item, item] })).toEqual([]);
  });

  const endless: Steps = { begin: () => 0, step: (states) => states.map((state) => ({ state })) };

  test("ends after 10,000 steps", async () => {
    await using runner = await runnerOf(endless);
    expect(await failure(runner.run([[number(0), number(0)]]))).toBe(
      "run_failed: the example did not end in 10000 steps; return { outputs } in the last step, or declare a shorter example",
    );
  });
});

describe("a step fails, and names the fix, when it returns", () => {
  const cases: [string, unknown, string][] = [
    ["no list", {}, "step gave object for 1 states; return a list with a result for each state"],
    ["too few results", [], "step gave a list of 0 for 1 states; return a list with a result for each state"],
    ["a result without a state", [{}], "step gave a result without a state; each result is "],
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
