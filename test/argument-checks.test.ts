/**
 * For some operator arguments libtorch crashes or reads foreign memory. sconce checks such inputs, and fails their
 * batch.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { uncheckedModules } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { sessions } from "./helpers/sessions.ts";
import { ones } from "./helpers/tensors.ts";

const open = sessions();
const folder = await uncheckedModules();

const session = (file: string, input: readonly (number | string)[], output: readonly (number | string)[]) =>
  open({ path: join(folder, file), inputs: { x: float32(...input) }, outputs: { y: float32(...output) } });

test("a traced LSTM refuses an input of the wrong width, and runs the next input", async () => {
  const lstm = await session("lstm.pt", ["time", "width"], ["time", 3]);
  for (const width of [5, 7, 4096]) {
    expect(await failure(lstm.run([[ones(5, width)]]))).toBe(
      "run_failed: the input of an LSTM has another width than its weights",
    );
  }
  const [given] = await lstm.run([[ones(5, 6)]]);
  expect(given?.shape).toEqual([1, 5, 3]);
});

test.each(["layer", "function"])(
  "an assertion in a call whose result is not used refuses an input: %s",
  async (file) => {
    const unused = await session(`unused-${file}.pt`, ["width"], ["width"]);
    expect(await failure(unused.run([[ones(4)]]))).toMatch(/^run_failed: .*three columns/);
    const [given] = await unused.run([[ones(3)]]);
    expect([...(given?.data ?? [])]).toEqual([2, 2, 2]);
  },
);

test("a remainder by zero fails its input, and the next input runs", async () => {
  const remainder = await session("remainder.pt", ["columns"], []);
  expect(await failure(remainder.run([[ones(3)]]))).toBe("run_failed: integer modulo by zero: aten::remainder(3, 0)");
  const [given] = await remainder.run([[ones(5)]]);
  expect([...(given?.data ?? [])]).toEqual([6]);
});

const least = -(2n ** 63n);
const tooLarge = "run_failed: integer division beyond 64 bits: aten::";

test.each([
  ["remainders.pt", [least, -1n], `${tooLarge}remainder(${least}, -1)`, 1n],
  ["item-remainders.pt", [least, -1n], `${tooLarge}remainder(${least}, -1)`, 1n],
  ["item-remainders.pt", [5n, 0n], "run_failed: integer modulo by zero: aten::remainder(5, 0)", 1n],
  ["floor-divisions.pt", [least, -1n], `${tooLarge}floordiv(${least}, -1)`, 3n],
  ["item-floor-divisions.pt", [least, -1n], `${tooLarge}floordiv(${least}, -1)`, 3n],
  ["pairs.pt", [least, -1n], `${tooLarge}divmod(${least}, -1)`, 3n],
  ["divisors.pt", [least, -1n], `${tooLarge}gcd(${least}, -1)`, 1n],
  ["divisors.pt", [-1n, least], `${tooLarge}gcd(-1, ${least})`, 1n],
  ["by-minus-one.pt", [least, 0n], `${tooLarge}floordiv(${least}, -1)`, -7n],
] as const)(
  "a division that would end the process fails its input, and the next input runs: %s of %p",
  async (file, wrong, message, right) => {
    const made = await open({
      path: join(folder, file),
      inputs: { x: { dtype: "int64", dims: [2] } },
      outputs: { y: { dtype: "int64", dims: [] } },
    });
    const pair = (values: readonly bigint[]): Tensor => tensor(BigInt64Array.from(values), [2]);
    expect(await failure(made.run([[pair(wrong)]]))).toBe(message);
    const [given] = await made.run([[pair([7n, 2n])]]);
    expect([...(given?.data ?? [])]).toEqual([right]);
  },
);
