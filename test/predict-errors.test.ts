/** Mistakes in a model's `predict` give an error of one line, and the runner continues. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Predict } from "../src/author/session.ts";
import { float32, int64, pad, type Tensor, tensor } from "../src/author/tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import type { Runner } from "../src/engine/runner.ts";
import { failure, failureOf } from "./helpers/failure.ts";

const path = join(import.meta.dir, "models/methods.pt");
const item = (value: number): Tensor[] => [tensor(Float32Array.of(value, value), [2])];
const y = (rows: number) => tensor(new Float32Array(rows * 2), [rows, 2]);
const n = (rows: number) => tensor(new BigInt64Array(rows), [rows]);

/** What `predict` does for the next batch. */
let next: Predict;
let runner: Runner;

const options = { weights: { model: path }, operators: [], devices: ["cpu"], threads: 1, instances: 1 };

function opened(predict: Predict, instances = 1): Promise<Runner[]> {
  const [inputs, outputs] = [{ x: float32(2) }, { y: float32(2), n: int64() }];
  return openRunners({ ...options, predict, inputs, outputs, instances });
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
    ["gives what is not declared", wrong({ y: y(2), n: n(2), z: n(2) }), 'a tensor "z", which is not declared (decl'],
    ["gives a list of numbers", wrong({ y: [1, 2], n: n(2) }), 'a list of 2 as "y"; make a tensor with tensor('],
    [
      "gives the dict of a session",
      wrong({ y: { out: y(2), aux: 1 }, n: n(2) }),
      'return a tensor of it, as its "out"',
    ],
    ["gives a row too few", wrong({ y: y(1), n: n(2) }), '"y" as float32(1, 2) with 2 elements in a Float32Array; '],
    ["gives another dtype", wrong({ y: y(2), n: tensor(new Int32Array(2), [2]) }), "declared for 2 items: int64(2)"],
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
      expect(await failure(runner.run([item(1), item(2)]))).toContain(message);
      next = () => ({ y: y(1), n: n(1) });
      expect(await runner.run([item(1)])).toEqual([y(1), n(1)]);
    });
  }
});

test("a batch fails if predict returns impossible sizes", async () => {
  for (const shape of [
    [1, -1, -5],
    [1, 0.5, 10],
  ]) {
    const [any] = await openRunners({
      ...options,
      predict: () => ({ y: { dtype: "float32", shape, data: new Float32Array(5) } }),
      inputs: { x: float32(2) },
      outputs: { y: float32("height", pad("width", 0)) },
    });
    const message = await failure(any?.run([item(1)]) ?? Promise.resolve());
    await any?.dispose();
    expect(message).toContain(`predict gave "y" as float32(${shape.join(", ")}) with 5 elements`);
  }
});

test("predict may overwrite its results afterwards, because rows are copies", async () => {
  const kept = tensor(Float32Array.of(1, 2), [1, 2]);
  next = () => ({ y: kept, n: n(1) });
  const [given] = await runner.run([item(1)]);
  kept.data.fill(9);
  expect(given).toEqual(tensor(Float32Array.of(1, 2), [1, 2]));
});

describe("the batch that predict gets", () => {
  const inputs = { x: float32("width"), ids: int64(pad("tokens", -1)) };
  const words = (width: number, ...ids: bigint[]): Tensor[] => [
    tensor(new Float32Array(width).fill(ids.length), [width]),
    tensor(BigInt64Array.from(ids), [ids.length]),
  ];

  async function batchOf(items: readonly (readonly Tensor[])[]): Promise<Readonly<Record<string, Tensor>>> {
    let batch: Readonly<Record<string, Tensor>> = {};
    const predict: Predict = (given) => {
      batch = given;
      return { y: y(items.length) };
    };
    const [each] = await openRunners({ ...options, predict, inputs, outputs: { y: float32(2) } });
    try {
      await each?.run(items);
      return batch;
    } finally {
      await each?.dispose();
    }
  }

  test("is stacked and padded, and has the tensors by name", async () => {
    expect(await batchOf([words(2, 5n), words(2), words(2, 6n, 7n, 8n)])).toEqual({
      x: tensor(Float32Array.of(1, 1, 0, 0, 3, 3), [3, 2]),
      ids: tensor(BigInt64Array.of(5n, -1n, -1n, -1n, -1n, -1n, 6n, 7n, 8n), [3, 3]),
    });
  });

  test("has its own memory, small or large: predict may overwrite, keep and transfer it", async () => {
    for (const width of [2, 200_000]) {
      const items = [words(width, 1n), words(width, 2n)];
      const { x } = await batchOf(items);
      const buffer = x?.data.buffer;
      if (!(buffer instanceof ArrayBuffer)) throw new Error("x lies elsewhere");
      new Uint8Array(buffer).fill(9);
      expect(items[0]?.[0]?.data[0]).toBe(1);
      expect(buffer.byteLength).toBe(2 * width * 4);
      expect(structuredClone(buffer, { transfer: [buffer] }).byteLength).toBe(2 * width * 4);
      const { x: next } = await batchOf(items);
      expect(next?.data[0]).toBe(1);
    }
  });

  test("is refused with item and name if an item does not match", async () => {
    expect(await failure(batchOf([words(2, 5n), words(3, 5n)]))).toContain('item 1, input "x": not the declared');
    expect(await failure(batchOf([words(2, 5n), words(2, 5n).slice(1)]))).toMatch(
      /^tensor_invalid: item 1 .*\(x, ids\)$/,
    );
  });

  test("is refused if padding would exceed the memory", async () => {
    const inputs = { x: float32(pad("a", 0), pad("b", 0)) };
    const predict: Predict = () => ({ y: y(2) });
    const [each] = await openRunners({ ...options, predict, inputs, outputs: { y: float32(2) } });
    const long = new Float32Array(2 ** 21);
    const items = [[tensor(long, [2 ** 21, 1])], [tensor(long, [1, 2 ** 21])]];
    expect(await failure(each?.run(items) ?? Promise.resolve())).toBe(
      "out_of_memory: a tensor of the batch does not fit in memory",
    );
    await each?.dispose();
  });
});

test("batches of one instance run one after another, batches of two instances in parallel", async () => {
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

test("no session stays open if one of the weights cannot be loaded", async () => {
  const opening = openRunners({
    ...options,
    weights: { model: path, other: `${path}.missing` },
    predict: () => ({}),
    inputs: { x: float32(2) },
    outputs: { y: float32(2) },
    instances: 2,
  });
  expect((await failureOf(opening)).code).toBe("weights_invalid");
});
