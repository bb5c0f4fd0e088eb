/** What a model's own `predict` does wrong is told in one line, and its runner goes on. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { openRunners } from "../src/engine/open-runners.ts";
import type { Runner } from "../src/engine/runner.ts";
import type { Predict } from "../src/model/session.ts";
import { float32, int64, type Tensor, tensor } from "../src/model/tensor.ts";
import { failure } from "./helpers/failure.ts";

const path = join(import.meta.dir, "models/methods.pt");
const item = (value: number): Tensor[] => [tensor(Float32Array.of(value, value), [2])];
const y = (rows: number) => tensor(new Float32Array(rows * 2), [rows, 2]);
const n = (rows: number) => tensor(new BigInt64Array(rows), [rows]);

/** What the next batch does. */
let next: Predict;
let runner: Runner;

function opened(predict: Predict, instances = 1): Promise<Runner[]> {
  return openRunners({
    weights: { model: path },
    operators: [],
    predict,
    inputs: { x: float32(2) },
    outputs: { y: float32(2), n: int64() },
    devices: ["cpu"],
    threads: 1,
    instances,
  });
}

beforeAll(async () => {
  const [first] = await opened((batch, sessions) => next(batch, sessions));
  if (first === undefined) throw new Error("no runner was opened");
  runner = first;
});
afterAll(() => runner.dispose());

describe("a batch fails when predict", () => {
  const wrong =
    (given: unknown): Predict =>
    () =>
      given as ReturnType<Predict>;
  const cases: [string, Predict, string][] = [
    ["gives nothing", wrong(undefined), "run_failed: predict gave nothing; return { name: tensor(…) }"],
    ["gives too little", wrong({ y: y(2) }), 'run_failed: predict gave no tensor "n"'],
    [
      "gives what is not declared",
      wrong({ y: y(2), n: n(2), z: n(2) }),
      'run_failed: predict gave a tensor "z", which is not declared (y, n are)',
    ],
    [
      "gives a list of numbers",
      wrong({ y: [1, 2], n: n(2) }),
      'run_failed: predict gave no tensor as "y"; make one with tensor(data, shape)',
    ],
    [
      "gives a row too few",
      wrong({ y: y(1), n: n(2) }),
      'run_failed: predict gave "y" as float32(1, 2) with 2 elements in a Float32Array; declared for 2 items: float32(2, 2)',
    ],
    [
      "gives another dtype",
      wrong({ y: y(2), n: tensor(new Int32Array(2), [2]) }),
      'run_failed: predict gave "n" as int32(2) with 2 elements in a Int32Array; declared for 2 items: int64(2)',
    ],
    [
      "gives a shape that does not fit the data",
      wrong({ y: { dtype: "float32", shape: [2, 2], data: new Float32Array(3) }, n: n(2) }),
      'run_failed: predict gave "y" as float32(2, 2) with 3 elements in a Float32Array; declared for 2 items: float32(2, 2)',
    ],
    [
      "gives the elements of another dtype",
      wrong({ y: { dtype: "float32", shape: [2, 2], data: new Float64Array(4) }, n: n(2) }),
      'run_failed: predict gave "y" as float32(2, 2) with 4 elements in a Float64Array; declared for 2 items: float32(2, 2)',
    ],
    [
      "throws",
      () => {
        throw new TypeError("no such thing");
      },
      "run_failed: predict failed: no such thing",
    ],
    ["rejects with what is no error", () => Promise.reject("a text"), "run_failed: predict failed: a text"],
    [
      "calls a method that raises",
      async (_, { model }) => ({ y: await model?.call("raises", y(2)), n: n(2) }) as Awaited<ReturnType<Predict>>,
      "run_failed: this is not wanted",
    ],
  ];
  for (const [what, predict, message] of cases) {
    test(what, async () => {
      next = predict;
      expect(await failure(runner.run([item(1), item(2)]))).toBe(message);
      next = () => ({ y: y(1), n: n(1) });
      expect(await runner.run([item(1)])).toEqual([y(1), n(1)]);
    });
  }
});

test("what predict gave may be written into afterwards: rows were copied", async () => {
  const kept = tensor(Float32Array.of(1, 2), [1, 2]);
  next = () => ({ y: kept, n: n(1) });
  const [given] = await runner.run([item(1)]);
  kept.data.fill(9);
  expect(given).toEqual(tensor(Float32Array.of(1, 2), [1, 2]));
});

test("batches of one instance are predicted one after the other, those of two side by side", async () => {
  const running = async (instances: number): Promise<number> => {
    let [now, most] = [0, 0];
    const runners = await opened(async (_, { model }) => {
      most = Math.max(most, ++now);
      await model?.call("bump");
      now -= 1;
      return { y: y(1), n: n(1) };
    }, instances);
    await Promise.all(Array.from({ length: 6 }, (_, i) => runners[i % instances]?.run([item(i)])));
    await Promise.all(runners.map((each) => each.dispose()));
    return most;
  };
  expect(await running(1)).toBe(1);
  expect(await running(2)).toBe(2);
});

test("batches that wait when the runner is disposed of are rejected, without calling predict", async () => {
  let calls = 0;
  const [first] = await opened(async (_, { model }) => {
    calls += 1;
    await model?.call("bump");
    return { y: y(1), n: n(1) };
  });
  if (first === undefined) throw new Error("no runner was opened");
  const batches = [first.run([item(1)]), first.run([item(2)])];
  const settled = Promise.allSettled(batches);
  await first.dispose();
  const [, second] = await settled;
  expect(second).toMatchObject({ status: "rejected", reason: { code: "session_closed" } });
  expect(calls).toBeLessThanOrEqual(1);
});

test("no session stays open when one of the weights cannot be loaded", async () => {
  const options = { weights: { model: path, other: `${path}.missing` }, operators: [], predict: () => ({}) };
  const opening = openRunners({
    ...options,
    inputs: { x: float32(2) },
    outputs: { y: float32(2) },
    devices: ["cpu"],
    threads: 1,
    instances: 2,
  });
  expect(await failure(opening)).toBe('weights_invalid: weights "methods.pt.missing": there is no such file');
});
