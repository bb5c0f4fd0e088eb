/** `build` and `check` try a model with the same code, so they find the same mistakes. */
import { expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { otherValues } from "../src/cli/build/trial-items.ts";
import { mistakes } from "./helpers/exports.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = fixture(fixtures, 600_000);
const wrong = await mistakes();
const dir = fixture(tempDir);

const store = fixture(() => storeWith());

/** Writes the folder of a model. @param path weights @param dims sizes of the input and the output tensor */
async function folderOf(
  path: string,
  dims: { input: string; output: string },
  change: Record<string, string | undefined> = {},
) {
  const input = basename(path).startsWith("fixed-") ? "input" : "x";
  const output = /fixed-|traced/.test(path) ? "output0" : "y";
  const text = modelText({
    tensors: `{ inputs: { ${input}: float32(${dims.input}) }, outputs: { ${output}: float32(${dims.output}) } }`,
    preprocess: `({ x }) => ({ ${input}: tensor(Float32Array.of(x, 0.5, 0.25, 2), [4]) })`,
    postprocess: `(rows) => ({ y: rows.${output}.data[0] })`,
    weights: `"${basename(path)}"`,
    ...change,
  });
  const folder = await writeModel(dir, text, `${basename(path)}-${Bun.hash(text).toString(36)}`);
  await copyFile(path, join(folder, basename(path)));
  return folder;
}

/** Runs `build` and `check` on a folder or a file. @returns the results of both */
async function tried(...args: string[]) {
  const built = await store.cliHere(["build", ...args]);
  const { stdout, code } = await store.cliHere(["check", ...args, "--json"]);
  return { built, checked: { code, ...JSON.parse(stdout) } };
}

test.each([
  [1, "one", "items run one at a time"],
  [2, "two", "smaller batches are filled up to 2, and cost as much"],
])("a batch fixed at %d: build warns with the Python fix, check finds it once", async (rows, name, cost) => {
  const fixed = { input: "4", output: "4" };
  const folder = await folderOf(join(wrong, `fixed-${name}.pt2`), fixed, { batchSize: undefined });
  const message = `The batch of fixed-${name}.pt2 is fixed at ${rows}: leave the first size free where you export it; until then ${cost}`;
  const python = 'torch.export.export(net.eval(), example, dynamic_shapes={"input": {0: torch.export.Dim.DYNAMIC}})';
  const { built, checked } = await tried(folder);
  expect(built).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(`${message}. In Python: program = ${python}`),
  });
  const finding = { mistake: "fixed batch", effect: "warned", message, python: expect.stringContaining(python) };
  expect(checked).toMatchObject({ code: 1, findings: [finding] });
  // An author who declares the same batch size knows it.
  const declared = await tried(await folderOf(join(wrong, `fixed-${name}.pt2`), fixed, { batchSize: String(rows) }));
  expect(declared.built).toMatchObject({ code: 0, stderr: expect.not.stringContaining("is fixed at") });
  expect(declared.checked).toMatchObject({ code: 0, findings: [] });
});

test("a larger batch size than the fixed one, and a fixed one that a single item cannot fill up, are refused once", async () => {
  const fixed = { input: "4", output: "4" };
  const larger = await tried(await folderOf(join(wrong, "fixed-two.pt2"), fixed, { batchSize: "8" }));
  const fix = ", or set the batch size to 2 in place of 8";
  expect(larger.built).toMatchObject({ code: 1, stderr: expect.stringContaining(`${fix}. In Python: `) });
  const finding = { mistake: "fixed batch", effect: "refused", message: expect.stringContaining(fix) };
  expect(larger.checked.findings).toMatchObject([finding]);
  const { built, checked } = await tried(join(wrong, "fixed-hundred.pt2"));
  const unfilled = "a single item can't be filled up to a batch of 100";
  expect(built).toMatchObject({ code: 1, stderr: expect.stringContaining(unfilled) });
  expect(checked.findings).toMatchObject([{ effect: "refused", message: expect.stringContaining(unfilled) }]);
});

test("a program that changes its buffers is refused by both, and never compared with PyTorch", async () => {
  const { built, checked } = await tried(join(wrong, "counter.pt2"), "--compare");
  expect(built).toMatchObject({ code: 1, stderr: expect.stringContaining("keep a state") });
  expect(checked.findings).toMatchObject([{ mistake: "training mode, or random outputs" }]);
  expect(checked.reference).toMatchObject({ compared: 0, missing: "the outputs change from run to run" });
});

test("build says of TorchScript that only exported programs are compared with PyTorch", async () => {
  const { code, stderr } = await store.cliHere(["build", modelFolder("meter"), "--compare"]);
  const reason = "only exported programs (torch.export.save) are compared, and meter.pt is none";
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringContaining(`The outputs are not compared with PyTorch: ${reason}\n`),
  });
});

test("a maximum over a dimension that is padded with 0 is refused by both, even if the example has only positive numbers", async () => {
  const padded = { input: 'pad("length", 0)', output: "1" };
  const { built, checked } = await tried(await folderOf(join(wrong, "maximum.pt2"), padded, { batchSize: "4" }));
  const message =
    /^sconce: output "y" differs by up to [\d.]+ in 1 of 1 elements when the example with its values negated runs beside a longer item/;
  expect(built).toMatchObject({ code: 1, stderr: expect.stringMatching(message) });
  expect(checked).toMatchObject({ code: 1, findings: [{ mistake: "padding taken for content", effect: "unsteady" }] });
});

test("the example is also tried negated, scaled and with random numbers; integers and masks stay as they are", () => {
  const values = { dtype: "float32", shape: [3], data: Float32Array.of(1, -2, 0.5) } as const;
  const mask = { dtype: "float32", shape: [3], data: Float32Array.of(1, 1, 0) } as const;
  const ids = { dtype: "int64", shape: [1], data: BigInt64Array.of(7n) } as const;
  const tried = otherValues([values, mask, ids], true);
  expect(tried.map(({ change }) => change)).toEqual(["negated", "times 10", "at random"]);
  const [negated, scaled, random] = tried.map(({ item: [first] }) => [...(first?.data ?? [])].map(Number));
  expect([negated, scaled]).toEqual([
    [-1, 2, -0.5],
    [10, -20, 5],
  ]);
  expect(random?.every((value) => Math.abs(value) <= 2)).toBe(true);
  expect(new Set(random).size).toBe(3);
  for (const { item } of tried) expect(item.slice(1)).toEqual([mask, ids]);
});

test("the same maximum is packaged if the padding value is below all others", async () => {
  const padded = { input: 'pad("length", -1e30)', output: "1" };
  const { built, checked } = await tried(await folderOf(join(wrong, "maximum.pt2"), padded, { batchSize: "4" }));
  expect(built).toMatchObject({ code: 0, stderr: "" });
  expect(checked).toMatchObject({ code: 0, findings: [] });
});

test("items that influence each other only at other sizes than the example's are refused by both, with the size", async () => {
  const free = { input: '"length"', output: '"length"' };
  const { built, checked } = await tried(await folderOf(join(wrong, "long-mixes.pt2"), free, { batchSize: "4" }));
  expect(built).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^sconce: with x\.size\(1\) = \d+: output "y" differs/),
  });
  expect(checked).toMatchObject({ code: 1, findings: [{ mistake: "training mode, or items mixed" }] });
});

test("a network that was traced for a batch of two is reported by build and check, for a file and in a folder", async () => {
  const input = ["--input", "x=float32[N,4]"];
  const { built, checked } = await tried(join(wrong, "traced-two.pt"), ...input);
  const cause = "traced or exported for a fixed batch of 2; in forward write x.shape[0], not a number";
  const message = `forward works with a batch of 2 and not with 1 item: the network was ${cause}`;
  expect(built).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
  expect(checked.findings).toMatchObject([{ mistake: "fixed batch", message: expect.stringContaining(message) }]);
  const alone = await tried(await folderOf(join(wrong, "traced-two.pt"), { input: "4", output: "2" }));
  expect(alone.built).toMatchObject({ code: 1, stderr: expect.stringContaining(cause) });
  expect(alone.checked.findings).toMatchObject([{ mistake: "fixed batch", message: expect.stringContaining(cause) }]);
});

test("a model without an example is packaged with a warning, and reported by check", async () => {
  const change = { tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(4) } }", weights: '"deep.pt"' };
  const text = modelText({ ...change, preprocess: "({ x }) => ({ x: tensor(new Float32Array(4).fill(x), [4]) })" });
  const folder = await writeModel(dir, text.replace(/ {2}example: .*\n/, ""), "without");
  await copyFile(weights.path("deep.pt"), join(folder, "deep.pt"));
  const { built, checked } = await tried(folder);
  const message = "the model declares no example: only its weights were run, with zeros";
  expect(built).toMatchObject({ code: 0, stderr: expect.stringContaining(message) });
  expect(checked).toMatchObject({ code: 1, findings: [{ message, effect: "warned" }] });
});

test("a misspelt file in the example is named by build and check, with the path", async () => {
  const text = modelText({ input: "z.object({ x: image() })", example: '{ x: "smaple.png" }' });
  const folder = await writeModel(dir, text, "misspelt");
  const { built, checked } = await tried(folder);
  const message = `example.x: there is no ${join(folder, "smaple.png")}`;
  expect(built).toMatchObject({ code: 1, stderr: `sconce: ${message}\n` });
  expect(checked.findings.map((finding: { message: string }) => finding.message)).toContain(message);
});
