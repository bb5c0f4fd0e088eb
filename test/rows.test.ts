/** The output rows that model code gets contain no data of other items, and can be transferred to a Worker. */
import { expect, test } from "bun:test";
import { float32, pad, type Tensor, type TensorSpec, tensor } from "../src/author/tensor.ts";
import type { Item } from "../src/engine/engine.ts";
import { openLocalEngine } from "../src/engine/remote/local-engine.ts";
import type { Rows } from "../src/engine/rows.ts";
import { fixture } from "./helpers/fixture.ts";
import { info } from "./helpers/remote.ts";
import { sessions } from "./helpers/sessions.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = fixture(fixtures, 600_000);
const open = sessions();

/** Output rows of two items that ran in one batch. */
async function rowsOf(spec: TensorSpec, sizes: readonly [number, number]): Promise<Rows[]> {
  const [inputs, outputs] = [{ x: spec }, { y: spec }];
  const session = await open({ path: weights.path("deep.pt"), inputs, outputs });
  const options = { runners: [session], maxBatchSize: 2, maxQueueDelayMs: 0, info };
  const { engine } = openLocalEngine<Item>({ ...options, inputs, outputs });
  const { promise, resolve, reject } = Promise.withResolvers<Rows[]>();
  const given: Rows[] = [];
  engine.listener = {
    dispatched: () => {},
    finished: (_, rows) => void (given.push(rows) === 2 && resolve(given)),
    failed: (_, error) => reject(error),
  };
  for (const [index, size] of sizes.entries()) {
    engine.submit({ lane: 1, index }, { x: tensor(new Float32Array(size).fill(index), [size]) });
  }
  return promise;
}

/** The elements as a Worker receives them by transfer. */
function transferred({ data }: Tensor): Tensor["data"] {
  if (!(data.buffer instanceof ArrayBuffer)) throw new Error("the memory is shared");
  return structuredClone(data, { transfer: [data.buffer] });
}

test.each([
  ["small", float32(5), [5, 5]],
  // 560 kB for two items: batches of 256 kB or more are not copied out of libtorch's memory.
  ["large", float32(70_000), [70_000, 70_000]],
  ["padded", float32(pad("n", 0)), [3, 7]],
] as const)("a row of a %s output has memory of its own, which can be transferred", async (_, spec, sizes) => {
  const rows = await rowsOf(spec, sizes);
  for (const [i, { y }] of rows.entries()) {
    if (y === undefined) throw new Error("there is no y");
    expect(y.data.buffer.byteLength).toBe(4 * (sizes[i] ?? 0));
    expect(transferred(y)).toEqual(new Float32Array(sizes[i] ?? 0).fill(8 * i + 1));
    expect(y.data.length).toBe(0);
  }
});

test("results of a method call can be transferred, however large they are", async () => {
  const session = await open({ path: weights.path("deep.pt") });
  const given = await session.call("forward", [tensor(new Float32Array(200_000), [1, 200_000])]);
  if (typeof given !== "object" || given === null || !("data" in given)) throw new Error("expected a tensor");
  expect(transferred(given as Tensor)).toEqual(new Float32Array(200_000).fill(1));
});
