/** What a module keeps from one batch to the next does not show in another batch's results, however many were given at once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Tensor, TensorSpec } from "../src/model/tensor.ts";
import { type NativeSession, openSession } from "../src/native/binding.ts";
import { type Fixtures, fixtures } from "./helpers/weights.ts";

const x: TensorSpec = { dtype: "float32", dims: [4] };
const values = Array.from({ length: 12 }, (_, i) => i + 1);
const open: NativeSession[] = [];
let made: Fixtures;
beforeAll(async () => {
  made = await fixtures();
}, 600_000);
afterAll(() => Promise.all(open.map((session) => session.dispose())));

/** Batches of two items, `value` and `-value`, all given before the first has ended. */
async function run(file: string): Promise<(number | bigint | undefined)[][]> {
  const path = made.path(file);
  const session = await openSession({ path, device: "cpu", threads: 1, inputs: { x }, outputs: { y: x } });
  open.push(session);
  const item = (value: number): Tensor[] => [{ dtype: "float32", shape: [4], data: new Float32Array(4).fill(value) }];
  const given = await Promise.all(values.map((value) => session.run([item(value), item(-value)])));
  return given.map(([y]) => [y?.data[0], y?.data[7]]);
}

test("a tensor that the module gives and writes into at the next batch is given as it was", async () => {
  expect(await run("keeps.pt")).toEqual(values.map((value) => [2 * value, -2 * value]));
});

test("an input that the module holds until the next batch is there as it was", async () => {
  // Zero first: there was none before, and zero times two has the sign of nothing.
  expect(await run("holds.pt")).toEqual(values.map((value) => [2 * (value - 1), value === 1 ? 0 : -2 * (value - 1)]));
});
