/** Modules that keep state between batches: the tensors of a batch stay unchanged, and instances share no state. */
import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import type { Predict } from "../src/author/session.ts";
import { type TensorSpec, tensor } from "../src/author/tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { withSource } from "./helpers/rewritten-package.ts";
import { sessions } from "./helpers/sessions.ts";
import { filled } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const x: TensorSpec = { dtype: "float32", dims: [4] };
const values = Array.from({ length: 12 }, (_, i) => i + 1);
const open = sessions();
const made = fixture(fixtures, 600_000);

/**
 * Submits a batch of the items `value` and `-value` for each value, all before the first ends. @returns their outputs
 */
async function run(file: string): Promise<(number | bigint | undefined)[][]> {
  const path = made.path(file);
  const session = await open({ path, inputs: { x }, outputs: { y: x } });
  const given = await Promise.all(values.map((value) => session.run([[filled(value, 4)], [filled(-value, 4)]])));
  return given.map(([y]) => [y?.data[0], y?.data[7]]);
}

test("a tensor that the module has returned keeps its values although the module overwrites it in the next batch", async () => {
  expect(await run("keeps.pt")).toEqual(values.map((value) => [2 * value, -2 * value]));
});

test("an input keeps its values while the module holds it until the next batch", async () => {
  // The module adds the input of the batch before. The first batch has none and gives 0, where -2 * 0 would be -0.
  expect(await run("holds.pt")).toEqual(values.map((value) => [2 * (value - 1), value === 1 ? 0 : -2 * (value - 1)]));
});

test("instances of weights with state do not share it", async () => {
  const steps = 20;
  const predict: Predict = async ({ x }, { model }) => {
    if (x === undefined || model === undefined) throw new Error("not called as declared");
    await model.call("reset");
    for (let i = 1; i < steps; i++) await model.call("forward", x);
    return { y: await model.call("forward", x) };
  };
  const runners = await openRunners({
    weights: { model: made.path("sums.pt") },
    operators: [],
    predict,
    inputs: { x },
    outputs: { y: x },
    devices: ["cpu"],
    threads: 1,
    instances: 2,
  });
  await using _ = {
    [Symbol.asyncDispose]: async () => void (await Promise.all(runners.map((each) => each.dispose()))),
  };
  const given = await Promise.all(
    values.map((value, i) => runners[i % 2]?.run([[tensor(new Float32Array(4).fill(value), [4])]])),
  );
  expect(given.map((outputs) => outputs?.[0]?.data[0])).toEqual(values.map((value) => steps * value * 1000 + steps));
});

test("weights count as stateful if a method may write an attribute; otherwise instances share them", async () => {
  const keeps = async (file: string, inputs?: { x: TensorSpec }) => {
    const options = { path: file, instances: 2 };
    return (await open(inputs === undefined ? options : { ...options, inputs, outputs: { y: x } })).keepsState;
  };
  const kept = {
    keeps: true,
    holds: true,
    sums: true,
    lists: true,
    remembers: true,
    tuned: false,
    rectified: false,
    deep: false,
  };
  for (const [name, expected] of Object.entries(kept)) {
    const path = made.path(`${name}.pt`);
    expect({ name, frozen: await keeps(path, { x }), callable: await keeps(path) }).toEqual({
      name,
      frozen: expected,
      callable: expected,
    });
  }
});

test("a compiled package counts as stateful if its code may write a buffer", async () => {
  await using dir = await tempDir();
  const { path } = made.get("aotinductor float32 one tuple");
  const keeps = async (file: string) => (await open({ path: file })).keepsState;
  expect(await keeps(path)).toBe(false);
  const writing = withSource(await readFile(path), "(const float*)(scale.", "(      float*)(scale.");
  await Bun.write(dir.join("writing.pt2"), writing);
  expect(await keeps(dir.join("writing.pt2"))).toBe(true);
});
