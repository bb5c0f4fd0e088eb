/** Exported programs run without a compiler and without Python, at every size that they were exported for. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { float32, float64, int32 } from "../src/author/tensor.ts";
import { WeightsFile } from "../src/engine/program/weights-file.ts";
import { failure } from "./helpers/failure.ts";
import { fixture } from "./helpers/fixture.ts";
import { sessions } from "./helpers/sessions.ts";
import { fixtures } from "./helpers/weights.ts";

const folder = (await fixtures()).path("programs");
const known = z.record(z.string(), z.array(z.number())).parse(await Bun.file(join(folder, "steps.json")).json());
const open = sessions();
const session = fixture(() => {
  const inputs = { mask: float32("length"), x: float32("length", 4) };
  const outputs = { flat: float32("flat"), picked: float32("length", 2), best: float64("length"), at: int32("length") };
  return open({ path: join(folder, "steps.pt2"), inputs, outputs });
});

/** Item `row` of the three that PyTorch computed, cut to `length` of its 7 tokens. */
function item(row: number, length = 7) {
  const part = (name: string, size: number) =>
    Float32Array.from((known[name] ?? []).slice(row * size, row * size + (size / 7) * length));
  return [
    { dtype: "float32", shape: [length], data: part("mask", 7) },
    { dtype: "float32", shape: [length, 4], data: part("x", 28) },
  ] as const;
}

test("a program gives the same outputs as PyTorch, at other sizes than it was exported with", async () => {
  const outputs = await session.run([0, 1, 2].map((row) => item(row)));
  for (const [i, name] of ["flat", "picked", "best", "at"].entries()) {
    const expected = known[name] ?? [];
    expect(outputs[i]?.data).toHaveLength(expected.length);
    for (const [at, value] of expected.entries()) expect(Number(outputs[i]?.data[at])).toBeCloseTo(value, 4);
  }
  // torch.export assumes that a dynamic batch dimension is at least 2, so a batch of one is worth a test.
  const [alone] = await session.run([item(1)]);
  expect([...(alone?.data ?? [])]).toEqual([...(outputs[0]?.data.slice(13, 26) ?? [])]);
});

test("sizes that the program was not exported for are refused, with the name of the input", async () => {
  expect(await failure(session.run([item(0, 3)]))).toStartWith("run_failed: x: length ");
});

test("the largest batch of a program is the bound of its first dimension", async () => {
  expect(new WeightsFile(join(folder, "masked.pt2")).program()?.guards.mostRows).toBe(16);
});

test("an argument that was a number in the export is no input, and other files are no programs", () => {
  expect(new WeightsFile(join(folder, "number.pt2")).program()?.guards.inputs).toEqual(["x"]);
  expect(new WeightsFile(join(import.meta.dir, "models/methods.pt")).program()).toBeUndefined();
});
