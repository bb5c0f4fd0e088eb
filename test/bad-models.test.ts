/** Models that fail to build or to serve: one clear line on standard error, exit code 1, and an unchanged store. */
import { beforeAll, describe, expect, test } from "bun:test";
import { configureLog } from "../src/base/log.ts";
import { build } from "../src/cli/commands/build.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith());
/** Runs a build that must fail. @returns its error */
const failedBuild = (...args: string[]) => failureOf(commandHere(build, args, store));

beforeAll(() => configureLog({ level: "error", format: "text" }));

type Mend = (path: string) => Promise<unknown>;

/** The error message of a build of this model.ts, which must fail. @param mend changes the model folder first */
async function refusalOf(text: string, mend: Mend = async () => {}): Promise<string> {
  await using dir = await tempDir();
  await writeModel(dir, text);
  await mend(dir.path);
  const { code, message } = await failedBuild(dir.path);
  expect(["model_invalid", "weights_invalid", "tensor_invalid", "item_failed", "output_invalid"]).toContain(code);
  expect(await Bun.file(`${store.home}/index.json`).exists()).toBe(false);
  return message;
}

const tensorsWith = (inputs: string, outputs = "y: float32(), together: int64()") => ({
  tensors: `{ inputs: { ${inputs} }, outputs: { ${outputs} } }`,
});

describe("code that never returns is named once the time limit has passed:", () => {
  const never = "() => new Promise(() => {})";
  test.each(["setup", "preprocess", "predict", "postprocess"])("%s", async (hook) => {
    await using dir = await tempDir();
    await writeModel(dir, modelText({ [hook]: never }));
    const { message } = await failedBuild(dir.path, "--timeout", "0.3");
    expect(message).toBe(`${hook} did not return within 0.3 s (--timeout)`);
  });
});

test("code that reads a file beside itself fails with an error that recommends assets", async () => {
  const text = `import { readFileSync } from "node:fs";\nreadFileSync(new URL("./words.txt", import.meta.url));\n${modelText()}`;
  expect(await refusalOf(text)).toContain(
    "declare the file under assets, and read it in setup with context.asset(name)",
  );
});

test("a refusal is one line on standard error and exit code 1", async () => {
  const never = '() => { throw new Error("never works,\n not even here"); }';
  await using dir = await tempDir();
  const folder = await writeModel(dir, modelText({ preprocess: never }));
  const { code, stdout, stderr } = await store.cli(["build", folder]);
  expect(stderr).toMatch(/^sconce: .+\n$/);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(await Bun.file(`${store.home}/index.json`).exists()).toBe(false);
});

describe("a wrong field is named with its fix:", () => {
  test.each([
    ["a name in capitals", { name: '"Small"' }, ["name: ", "lower-case", '"digits"']],
    ["no name", { name: undefined }, ["name: is missing"]],
    ["a misspelled field", { batchsize: "4" }, ["batchsize: is not a field of a model", "batchSize"]],
    ["a batch size of 0", { batchSize: "0" }, ["batchSize: must be at least 1"]],
    ["a batch size that is not whole", { batchSize: "1.5" }, ["batchSize: must be a whole number"]],
    ["a negative delay", { maxQueueDelayMs: "-1" }, ["maxQueueDelayMs: must be at least 0"]],
    ["an unknown device", { device: '"tpu"' }, ["device: must be", '"cpu"']],
    ["an input that is no schema", { input: "{ x: 1 }" }, ["input: must be a zod schema"]],
    ["no tensors", { tensors: "{ inputs: {}, outputs: { y: float32() } }" }, ["inputs: must name at least one"]],
    ["a tensor that is no tensor", tensorsWith("x: 4"), ["tensors.inputs.x: must be declared", "float32(64)"]],
    ["a size of 0", tensorsWith("x: float32(0)"), ["tensors.inputs.x.dims.0: must be a whole size of at least 1"]],
    ["a function that is none", { preprocess: "1" }, ["preprocess: must be a function"]],
    ["a schema that drops unknown fields", { input: "zod.object({ x: zod.number() })" }, ["input: drops unknown"]],
    ["a schema without a JSON side", { input: "z.object({ x: z.date() })" }, ["input.x: JSON has no dates"]],
    ["an example that does not fit", { example: '{ x: "1" }' }, ["example.x: ", "expected number"]],
    ["weights that are not there", { weights: '"none.pt"' }, ["none.pt is not a file"]],
    ["weights outside of the folder", { weights: '"../lab.pt"' }, ['"../lab.pt" is not written as a', "a link"]],
    ["an asset with a dot before it", { assets: '["./model.ts"]' }, ['"./model.ts" is not', 'without "./" and "../"']],
    ["an asset that is not there", { assets: '["vocab.txt"]' }, ["vocab.txt is not a file"]],
  ])("%s", async (_, change, parts) => {
    const line = await refusalOf(modelText(change));
    for (const part of parts) expect(line).toContain(part);
  });

  test("several faults share one line", async () => {
    const line = await refusalOf(modelText({ name: '"Small"', batchSize: "0", weights: undefined }));
    for (const field of ["name: ", "batchSize: ", "weights: "]) expect(line).toContain(field);
  });
});

const throwing = (message: string) => `() => { throw new Error("${message}"); }`;

describe("a model file is refused", () => {
  test.each([
    ["that throws while loading", 'throw new Error("no licence for this machine");', "loading: no licence for this"],
    ["that does not compile", "export default defineModel({ name: ;", /does not compile: .*model\.ts:1/],
    ["with a missing import", 'import "no-such-package";', "no-such-package"],
    ["without a model export", "export const model = 1;", "export default defineModel({ … })"],
    ["whose setup throws", modelText({ setup: throwing("the vocabulary is empty") }), "setup failed: the vocab"],
    [
      "whose setup reads an undeclared file, even if that file is in the folder",
      modelText({ setup: '({ asset }) => asset("model.ts")' }),
      "the model's setup reads model.ts, which is not declared under assets",
    ],
    [
      "whose preprocess fails for its own example",
      modelText({ preprocess: throwing("never works") }),
      "preprocess failed: never works",
    ],
  ])("%s", async (_, text, message) => {
    expect(await refusalOf(text)).toMatch(message);
  });

  test("that does not exist", async () => {
    await using dir = await tempDir();
    expect((await failedBuild(dir.path)).message).toContain("has no model.ts");
  });
});

describe("weights are refused", () => {
  test("that are no weights", async () => {
    expect(await refusalOf(modelText(), (path) => Bun.write(`${path}/lab.pt`, "not weights"))).toContain("lab.pt");
  });

  test.each([
    ["another input name", tensorsWith("pixels: float32(), steps: int64()"), "pixels"],
    [
      "an additional input",
      { ...tensorsWith("x: float32()"), preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x), []) })" },
      "steps",
    ],
    ["more outputs than declared", tensorsWith("x: float32(), steps: int64()", "y: float32()"), "output"],
    [
      "another rank than declared",
      tensorsWith("x: float32(), steps: int64()", "y: float32(3), together: int64()"),
      'output "y"',
    ],
    [
      "another dtype than declared",
      tensorsWith("x: float32(), steps: int64()", "y: float32(), together: int32()"),
      /together.*int(32|64)/,
    ],
  ])("with %s", async (_, change, message) => {
    expect(await refusalOf(modelText(change))).toMatch(message);
  });
});

test.each([
  ["another dtype", "() => ({ x: tensor(Int32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) })", "int32()"],
  [
    "another rank",
    "() => ({ x: tensor(Float32Array.of(1), [1]), steps: tensor(BigInt64Array.of(0n), []) })",
    "float32(1)",
  ],
  ["one tensor too few", "() => ({ x: tensor(Float32Array.of(1), []) })", '"steps"'],
  ["nothing", "() => undefined", "preprocess gave no tensors"],
  ["what is no tensor", "() => ({ x: 1, steps: 2 })", 'input "x"'],
])("preprocess that gives %s is refused", async (_, preprocess, part) => {
  expect(await refusalOf(modelText({ preprocess }))).toContain(part);
});

test.each([
  ["does not match its declaration", '() => ({ y: "high" })', /does not fit its declared output: output\.y: /],
  ["has an undeclared field", "() => ({ y: 1, z: 2 })", '"z"'],
  ["is undefined", "() => undefined", "output"],
])("an output that %s is refused", async (_, postprocess, message) => {
  expect(await refusalOf(modelText({ postprocess }))).toMatch(message);
});
