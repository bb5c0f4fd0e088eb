/** A build tries the model's example, and refuses outputs that are unreliable and code that other machines lack. */
import { describe, expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../src/cli/commands/build.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = fixture(fixtures, 600_000);
const dir = fixture(tempDir);
const store = fixture(() => storeWith());

const four = {
  tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(4) } }",
  preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x, 1, 2, 3), [4]) })",
};

/** Writes the folder of a model with the weights `file`. Its input tensor and output tensor have four elements each. */
async function folderOf(file: string, change: Record<string, string | undefined> = {}): Promise<string> {
  const folder = await writeModel(dir, modelText({ ...four, batchSize: "4", weights: `"${file}"`, ...change }), file);
  await copyFile(weights.path(file), join(folder, file));
  return folder;
}

/** Builds a folder. */
const built = (folder: string, ...args: string[]) => store.cliHere(["build", folder, ...args]);

describe("outputs of an example", () => {
  const refusal = async (...given: Parameters<typeof folderOf>) =>
    failure(commandHere(build, [await folderOf(...given)], store));
  const random =
    /^model_invalid: output "y" differs by up to [\d.]+ in \d of \d elements when the example runs again: .*--allow-random$/;

  test("that differ between runs are refused: dropout, state, a random preprocess", async () => {
    // In one of 16 builds, dropout gives the same outputs twice. Then the outputs of the batch differ, and the message is of the same kind.
    expect(await refusal("drops.pt")).toMatch(/^model_invalid: output "y" differs by up to .*--allow-random$/);
    expect(await refusal("sums.pt", { batchSize: "1" })).toMatch(random);
    const preprocess =
      "() => ({ x: tensor(Float32Array.of((globalThis.calls = (globalThis.calls ?? 0) + 1) * 100, 1, 2, 3), [4]) })";
    expect(await refusal("deep.pt", { preprocess })).toMatch(random);
  });

  test("that show an earlier item are refused, even if the example leaves the state that it found", async () => {
    const predict = `({ x }) => {
      const kept = globalThis.kept ?? 0.5;
      globalThis.kept = x.data[1] * 0.5;
      return { y: tensor(x.data.map((value) => value + kept), x.shape) };
    }`;
    expect(await refusal("deep.pt", { predict, batchSize: "1" })).toMatch(random);
  });

  test("with parts that do not fit the declaration, or are not declared, are refused", async () => {
    const predict = `({ x }) => (async function* () {
      yield { y: x };
      return { y: x };
    })()`;
    const parts = { predict, tensors: "{ inputs: { x: float32(4) }, outputs: { y: float32(4) } }" };
    const postprocessPart = "({ y }, { sequence }) => ({ sum: y.data.length + sequence })";
    const part = "z.object({ sum: z.int() })";
    expect(await refusal("deep.pt", parts)).toMatch(
      /predict yields rows, but the model has no part; declare the schema/,
    );
    expect(await refusal("deep.pt", { ...parts, part })).toMatch(/has no postprocessPart; write postprocessPart/);
    expect(await refusal("deep.pt", { ...parts, part: "z.string()", postprocessPart })).toMatch(
      /the model's part does not fit its declared part: part: /,
    );
    const yields = "() => (async function* () { yield 1; return { y: 1 }; })()";
    expect(await refusal("deep.pt", { postprocess: yields })).toMatch(
      /postprocess yields parts, but .* declares no part; /,
    );
    const folder = await folderOf("deep.pt", { ...parts, part, postprocessPart });
    expect(await built(folder)).toMatchObject({ code: 0 });
  });

  test("may have their rows and input overwritten by postprocess", async () => {
    const postprocess = "({ y }, { input }) => ({ y: (y.data[0] = y.data[0] * 2 + 1) * (input.x = input.x * 2 + 1) })";
    expect(await built(await folderOf("deep.pt", { postprocess }))).toMatchObject({ code: 0 });
  });

  const padded = (size: number) => ({
    tensors: '{ inputs: { x: float32(pad("length", 0)) }, outputs: { y: float32(1) } }',
    preprocess: `() => ({ x: tensor(new Float32Array(${size}).fill(1), [${size}]) })`,
  });

  test.each([
    ["what fills up is left out", "totals.pt", 3],
    ["no item is longer", "averages.pt", 8],
  ])("are packaged if %s", async (_, file, size) => {
    expect(await built(await folderOf(file, padded(size)))).toMatchObject({ code: 0, stderr: "" });
  });

  test("that become longer beside a longer item, but are otherwise equal, are accepted", async () => {
    const tensors = '{ inputs: { x: float32(pad("length", 0)) }, outputs: { y: float32("steps") } }';
    const folder = await folderOf("identity.pt", { ...padded(3), tensors });
    expect(await built(folder)).toMatchObject({ code: 0, stderr: "" });
  });

  test("are tried beside items that may share a batch with the example", async () => {
    const predict = `({ x: { shape: [rows, length] } }) => {
      console.log("length " + length);
      return { y: tensor(new Float32Array(rows), [rows, 1]) };
    }`;
    const folder = await folderOf("totals.pt", { ...padded(100), predict });
    const { code, stdout } = await built(folder);
    expect(code).toBe(0);
    const lengths = [...stdout.matchAll(/length (\d+)/g)].map(([, length]) => Number(length));
    expect(Math.max(...lengths)).toBeWithin(101, 142);
  });

  test("are accepted if they are equal or if there are no batches, and with a warning if they may differ", async () => {
    const builds = await Promise.all([
      built(await folderOf("deep.pt")),
      built(await folderOf("mixes.pt", { batchSize: "1" })),
      built(await folderOf("firstrow.pt", { batchSize: undefined })),
      built(await folderOf("drops.pt"), "--allow-random"),
    ]);
    const warning = expect.stringContaining('output "y" differs');
    expect(builds.map(({ code, stderr }) => ({ code, stderr }))).toEqual([
      { code: 0, stderr: "" },
      { code: 0, stderr: "" },
      { code: 0, stderr: "" },
      { code: 0, stderr: warning },
    ]);
  });
});

describe("an npm package", () => {
  /** Builds a model whose folder has the package `fast` with native code, and these files in node_modules. */
  async function builtWith(name: string, text: string, files: Record<string, string>) {
    const folder = await writeModel(dir, `${text}\n${modelText()}`, name);
    const addon = join(import.meta.dir, "../build/Release/sconce.node");
    await Bun.write(join(folder, "node_modules/fast/package.json"), '{ "name": "fast", "main": "index.js" }');
    await copyFile(addon, join(folder, "node_modules/fast/fast.node"));
    for (const [path, content] of Object.entries(files)) await Bun.write(join(folder, "node_modules", path), content);
    return store.cliHere(["build"], { cwd: folder });
  }

  test("with native code is refused by name", async () => {
    const index = 'module.exports = require("./fast.node");';
    const { code, stderr } = await builtWith("native", 'import "fast";', { "fast/index.js": index });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr:
        "sconce: the npm package fast, which the model's code uses, imports fast.node: native code is not packaged: use a package without it, or let the weights do its work, or leave it out with --external fast if the code does without it\n",
    });
  });

  test("that the bundle lacks is missing in the build, even if the author's folder has it", async () => {
    // Hides the import from the bundler, as packages do that choose a binary for the platform.
    const index = 'module.exports = require(["fast", "fast.node"].join("/"));';
    const { code, stderr } = await builtWith("hidden", 'import "loader";', {
      "loader/package.json": '{ "name": "loader", "main": "index.js" }',
      "loader/index.js": index,
    });
    expect(stderr).toContain("Cannot find module 'fast/fast.node'");
    expect(code).toBe(1);
  });
});
