/** Error messages for model authors: a wrong name, a missing await, a missing file, a missing package. */
import { describe, expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { refusal } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = fixture(fixtures, 600_000);
const dir = fixture(tempDir);

const store = fixture(() => storeWith());

describe("a failing hook", () => {
  const four = {
    tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(4) } }",
    preprocess: "({ x }) => ({ x: tensor(new Float32Array(4).fill(x), [4]) })",
    weights: '"tokens.pt"',
  };
  const predict = (body: string) => `async ({ x }, { model }) => { ${body} }`;
  const ids = "tensor(new BigInt64Array(1), [1, 1])";
  const called = `model.call("forward", ${ids}, tensor(new Float32Array(1), [1, 1]))`;

  test.each([
    [
      "postprocess reads an output that is not declared",
      { weights: '"deep.pt"', postprocess: "({ scores }) => ({ y: scores.data[0] })" },
      `postprocess failed: undefined is not an object (evaluating 'scores.data') (model.ts:`,
    ],
    [
      "preprocess awaits no promise",
      {
        weights: '"deep.pt"',
        preprocess: "() => { const { data } = Promise.resolve({}); return { x: tensor(data, [4]) }; }",
      },
      "a tensor's data is a typed array, not undefined; is an await missing before the call that made it?",
    ],
    ["predict gives a promise", { predict: predict(`return { y: ${called} }`) }, 'a promise as "y": await the call'],
  ])("%s", async (name, change, message) => {
    const folder = await writeModel(dir, modelText({ ...four, ...change }), name);
    for (const file of ["deep.pt", "tokens.pt"]) await copyFile(weights.path(file), join(folder, file));
    // A call that `predict` does not await rejects after the build, which would fail the tests of this process.
    const run = "predict" in change ? store.cli : store.cliHere;
    expect(await run(["build", folder])).toMatchObject(refusal(1, message));
  });
});

test.each([
  ["init --from", ["init", "new", "--from", "nothere.pt2"]],
  ["build", ["build", "nothere.pt2"]],
  ["check", ["check", "nothere.pt2"]],
])("a missing file is reported: %s", async (_, args) => {
  expect(await store.cliHere(args, { cwd: dir.path })).toMatchObject(refusal(2, "there is no nothere.pt2"));
});

test("JSON and text imports of model.ts are bundled", async () => {
  const imports = 'import labels from "./labels.json";\nimport words from "./words.txt" with { type: "text" };';
  const use = 'if (labels[0] !== "cat" || words.trim() !== "hello") throw new Error("not there");';
  const folder = await writeModel(dir, `${imports}\n${use}\n${modelText()}`, "imports");
  await Bun.write(join(folder, "labels.json"), '["cat"]');
  await Bun.write(join(folder, "words.txt"), "hello\n");
  expect(await store.cliHere(["build", folder])).toMatchObject({ code: 0, stderr: "" });
});

describe("an npm package", () => {
  test("that is missing is named", async () => {
    const folder = await writeModel(dir, `import "@left/pad/lib";\n${modelText()}`, "missing");
    expect(await store.cliHere(["build", folder])).toMatchObject(
      refusal(
        1,
        "model.ts:1: the package @left/pad is not installed: install it in the model's folder, or leave it out with --external @left/pad",
      ),
    );
  });

  test("with optional native code can be left out with --external", async () => {
    const optional =
      'let fast; try { fast = require("fast/part"); } catch {}\nif (fast !== undefined) throw new Error("bundled");';
    const folder = await writeModel(dir, `${optional}\n${modelText()}`, "optional");
    await Bun.write(join(folder, "node_modules/fast/part.js"), 'module.exports = require("./fast.node");');
    await copyFile(join(import.meta.dir, "../build/Release/sconce.node"), join(folder, "node_modules/fast/fast.node"));
    const refused = await store.cliHere(["build", folder]);
    expect(refused).toMatchObject(refusal(1, "--external fast"));
    expect((await store.cliHere(["build", folder, "--external", "fast"])).code).toBe(0);
    expect((await store.cliHere(["check", folder, "--external", "fast"])).stdout).not.toContain("fast.node");
  });
});
