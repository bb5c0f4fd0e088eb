/** `sconce check`: mistakes in exports and in the model's code, the Python that fixes exports, and its measurements. */
import { expect, spyOn, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "citty";
import { check } from "../src/cli/commands/check.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = fixture(fixtures, 600_000);
const dir = fixture(tempDir);

/**
 * Runs `sconce check` on a model with the weights `file`. Its input tensor and output tensor have four elements each.
 * @returns the output and the exit code of the command
 */
async function checked(file: string, change: Record<string, string> = {}, flags: readonly string[] = []) {
  const text = modelText({
    tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(4) } }",
    preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x, 1, 2, 3), [4]) })",
    batchSize: "4",
    weights: `"${file}"`,
    ...change,
  });
  const folder = await writeModel(dir, text, file);
  await copyFile(weights.path(file), join(folder, file));
  using printed = spyOn(console, "log").mockImplementation(() => {});
  await runCommand(check, { rawArgs: [folder, ...flags] });
  const code = process.exitCode ?? 0;
  process.exitCode = 0;
  return { text: Bun.stripANSI(String(printed.mock.lastCall?.[0])), code };
}

/** Two runs never drop the same of 64 elements. */
const many = {
  tensors: "{ inputs: { x: float32(64) }, outputs: { y: float32(64) } }",
  preprocess: "() => ({ x: tensor(new Float32Array(64).fill(1), [64]) })",
};

test.each([
  [
    "drops.pt",
    many,
    /^training mode, or /,
    'net.eval(), example, dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})',
  ],
  [
    "drops.pt",
    { ...many, predict: 'async ({ x }, { model }) => ({ y: await model.call("forward", x) })' },
    /^training mode, or /,
    "net.eval(), example, dynamic_shapes=tuple({0: torch.export.Dim.DYNAMIC} for _ in example))",
  ],
  [
    "drops.pt",
    { ...many, tensors: '{ inputs: { x: float32(pad("length", 0)) }, outputs: { y: float32(pad("length", 0)) } }' },
    /^training mode, or /,
    'dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}})',
  ],
  ["mixes.pt", {}, "training mode, or items mixed", "over dim=0"],
  [
    "averages.pt",
    { tensors: '{ inputs: { x: float32(pad("length", 0)) }, outputs: { y: float32(1) } }' },
    "padding taken for content",
    "mask.sum(1)",
  ],
  ["firstrow.pt", {}, "fixed batch", 'dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}'],
  ["total.pt", {}, "no batch dimension", "dim=1"],
  ["double.pt", {}, "dtype of an output", "y.float()"],
  [
    "deep.pt",
    { tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(3) } }" },
    "shape of an output",
    "reshape",
  ],
  [
    "deep.pt",
    {
      tensors: "{ inputs: { a: float32(4) }, outputs: { y: float32(4) } }",
      preprocess: "({ x }) => ({ a: tensor(Float32Array.of(x, 1, 2, 3), [4]) })",
    },
    "names",
    "def forward(self, a)",
  ],
  ["checkpoint.pt", {}, "model", undefined],
])("%s %p is found, with the line that mends it", async (file, change, mistake, python) => {
  const { text, code } = await checked(file, change, ["--json"]);
  const { findings } = JSON.parse(text);
  expect(findings).toHaveLength(1);
  expect(findings[0].mistake).toMatch(mistake);
  if (python !== undefined) expect(findings[0].python).toContain(python);
  expect(code).toBe(1);
});

test("a valid model passes: exit code 0, with the time of each stage and batch sizes", async () => {
  const { text, code } = await checked("deep.pt");
  expect(code).toBe(0);
  expect(text).toMatch(/^STAGE +TIME\n(.* ms\n)+\nBATCH +STACK MS +FORWARD MS +MS AN ITEM +THROUGHPUT\n/);
  const stages = ["load weights", "setup", "preprocess", "warm: first run", "postprocess", "encode"];
  expect([...text.matchAll(/^([a-z].*?) {2,}[\d.]+ ms$/gm)].map(([, stage]) => stage)).toEqual(stages);
  expect([...text.matchAll(/^(\d) /gm)].map(([, size]) => size)).toEqual(["1", "2", "4", "8"]);
  expect(text).toMatch(/\nProposed batchSize: \d+, the smallest with at least 90 % of the best throughput here\.\n/);
  expect(text).toEndWith("\n✔ no mistakes found");
});

test("a postprocess with different outputs for the same input is found", async () => {
  const { text, code } = await checked("deep.pt", { postprocess: "() => ({ y: Math.random() })" });
  expect(text).toMatch(/\n✖ model: the output differs when postprocess runs twice on the same tensors: .*$/);
  expect(code).toBe(1);
});

test("an error of the author's code is a finding with its line; a wrong command line is no finding", async () => {
  const { text, code } = await checked("deep.pt", { postprocess: '() => { throw new Error("no"); }' });
  expect(text).toMatch(/\n✖ model: postprocess failed: no \(model\.ts:\d+\)$/);
  expect(code).toBe(1);
  expect(await failure(runCommand(check, { rawArgs: [dir.join("none")] }))).toStartWith("usage: ");
});
