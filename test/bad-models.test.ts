/** Models that fail to build or to serve: one clear line on standard error, exit code 1, and an unchanged store. */
import { afterAll, beforeAll, describe, expect, jest, test } from "bun:test";
import { existsSync } from "node:fs";
import { truncate } from "node:fs/promises";
import { configureLog, log } from "../src/base/log.ts";
import { build } from "../src/cli/commands/build.ts";
import { cli } from "./helpers/cli.ts";
import { failureOf } from "./helpers/failure.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let home: TempDir;
const outerHome = process.env.SCONCE_HOME;

beforeAll(async () => {
  home = await tempDir();
  process.env.SCONCE_HOME = home.path;
  configureLog({ level: "error", format: "text" });
});

afterAll(async () => {
  if (outerHome === undefined) delete process.env.SCONCE_HOME;
  else process.env.SCONCE_HOME = outerHome;
  await home[Symbol.asyncDispose]();
});

type Mend = (path: string) => Promise<unknown>;

/** The error message of a build of this model.ts, which must fail. @param mend changes the model folder first */
async function refusalOf(text: string, mend: Mend = async () => {}): Promise<string> {
  await using dir = await tempDir();
  await writeModel(dir, text);
  await mend(dir.path);
  const { code, message } = await failureOf(build.run([dir.path]));
  expect(["model_invalid", "weights_invalid", "tensor_invalid", "item_failed", "output_invalid"]).toContain(code);
  expect(existsSync(home.join("index.json"))).toBe(false);
  return message;
}

const tensorsWith = (inputs: string, outputs = "y: float32(), together: int64()") => ({
  tensors: `{ inputs: { ${inputs} }, outputs: { ${outputs} } }`,
});

describe("a valid model", () => {
  test("is built", async () => {
    await using dir = await tempDir();
    const path = await writeModel(dir, modelText());
    const { code, stdout, stderr } = await cli(["build", path], { env: { SCONCE_HOME: dir.join("home") } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^small:[0-9a-f]{12}\n$/);
  });
});

describe("code that never returns is named once the time limit has passed:", () => {
  const never = "() => new Promise(() => {})";
  test.each(["setup", "preprocess", "predict", "postprocess"])("%s", async (hook) => {
    await using dir = await tempDir();
    await writeModel(dir, modelText({ [hook]: never }));
    const { message } = await failureOf(build.run([dir.path, "--timeout", "0.3"]));
    expect(message).toBe(`${hook} did not return within 0.3 s (--timeout)`);
  });

  test("the error of a slow step follows a message that the step is slow", async () => {
    await using dir = await tempDir();
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    Object.assign(globalThis, { setupBegan: resolve });
    await writeModel(dir, modelText({ setup: "() => { globalThis.setupBegan(); return new Promise(() => {}); }" }));
    const lines: unknown[] = [];
    const { reporters } = log.options;
    // In JSON format a slow step is a log line, even if the test runs on a terminal.
    configureLog({ level: "info", format: "json" });
    log.setReporters([{ log: ({ args }) => lines.push(...args) }]);
    jest.useFakeTimers();
    try {
      const failing = failureOf(build.run([dir.path]));
      await begun;
      jest.advanceTimersByTime(2000);
      expect(lines).toContain("Running the model's setup …");
      jest.advanceTimersByTime(298_000);
      expect((await failing).message).toBe("setup did not return within 300 s (--timeout)");
    } finally {
      jest.useRealTimers();
      log.setReporters(reporters);
      configureLog({ level: "error", format: "text" });
      Reflect.deleteProperty(globalThis, "setupBegan");
    }
  });

  test("a loop that blocks the thread", async () => {
    await using dir = await tempDir();
    await writeModel(dir, modelText({ preprocess: "() => { for (;;); }" }));
    const { code, stderr } = await cli(["build", dir.path, "--timeout", "0.3"], { env: { SCONCE_HOME: home.path } });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: "sconce: preprocess did not return within 0.3 s (--timeout)\n",
    });
  });
});

test("code that reads a file beside itself fails with an error that recommends assets", async () => {
  const text = `import { readFileSync } from "node:fs";\nreadFileSync(new URL("./words.txt", import.meta.url));\n${modelText()}`;
  expect(await refusalOf(text)).toContain(
    "declare the file under assets, and read it in setup with context.asset(name)",
  );
});

describe("a refusal", () => {
  const never = '() => { throw new Error("never works,\n not even here"); }';

  test.each([
    ["of a declaration", modelText({ batchSize: "0" })],
    ["of a file that throws", 'throw new Error("not today");'],
    ["of a model that fails its own example", modelText({ preprocess: never })],
    ["of weights", modelText(tensorsWith("pixels: float32(), steps: int64()"))],
  ])("%s is one line on standard error and exit code 1", async (_, text) => {
    await using dir = await tempDir();
    const { code, stdout, stderr } = await cli(["build", await writeModel(dir, text)], {
      env: { SCONCE_HOME: dir.join("home") },
    });
    expect(stderr).toMatch(/^sconce: .+\n$/);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(existsSync(dir.join("home", "index.json"))).toBe(false);
  });
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
    [
      "no tensors",
      { tensors: "{ inputs: {}, outputs: { y: float32() } }" },
      ["tensors.inputs: must name at least one"],
    ],
    ["a tensor that is no tensor", tensorsWith("x: 4"), ["tensors.inputs.x: must be declared", "float32(64)"]],
    ["a size of 0", tensorsWith("x: float32(0)"), ["tensors.inputs.x.dims.0: must be a whole size of at least 1"]],
    ["a function that is none", { preprocess: "1" }, ["preprocess: must be a function"]],
    ["a schema that drops unknown fields", { input: "zod.object({ x: zod.number() })" }, ["input: drops unknown"]],
    ["a schema without a JSON side", { input: "z.object({ x: z.date() })" }, ["input.x: JSON has no dates"]],
    ["an example that does not fit", { example: '{ x: "1" }' }, ["example.x: ", "expected number"]],
    ["weights that are not there", { weights: '"none.pt"' }, ["none.pt is not a file"]],
    [
      "weights outside of the folder",
      { weights: '"../lab.pt"' },
      ['"../lab.pt" is not written as a file of', "a link"],
    ],
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

describe("a model file", () => {
  test("that throws while loading is refused with its message", async () => {
    const line = await refusalOf('throw new Error("no licence for this machine");');
    expect(line).toContain("failed while loading: no licence for this machine");
  });

  test("that does not compile is refused with the position", async () => {
    expect(await refusalOf("export default defineModel({ name: ;")).toMatch(/does not compile: .*model\.ts:1/);
  });

  test("with a missing import is refused with its name", async () => {
    expect(await refusalOf('import "no-such-package";')).toContain("no-such-package");
  });

  test("without a model export is refused with the fix", async () => {
    expect(await refusalOf("export const model = 1;")).toContain("export default defineModel({ … })");
  });

  test("that does not exist is named", async () => {
    await using dir = await tempDir();
    expect((await failureOf(build.run([dir.path]))).message).toContain("has no model.ts");
  });

  test("whose setup throws is refused with its message", async () => {
    const setup = '() => { throw new Error("the vocabulary is empty"); }';
    expect(await refusalOf(modelText({ setup }))).toContain("setup failed: the vocabulary is empty");
  });

  test("whose setup reads an undeclared file is refused, even if that file is in the folder", async () => {
    const setup = '({ asset }) => asset("model.ts")';
    expect(await refusalOf(modelText({ setup }))).toContain(
      "the model's setup reads model.ts, which is not declared under assets",
    );
  });

  test("whose preprocess fails for its own example is refused", async () => {
    const preprocess = '() => { throw new Error("never works"); }';
    expect(await refusalOf(modelText({ preprocess }))).toContain("preprocess failed: never works");
  });
});

describe("weights", () => {
  test("that are no weights are refused", async () => {
    const line = await refusalOf(modelText(), (path) => Bun.write(`${path}/lab.pt`, "not weights"));
    expect(line).toContain("lab.pt");
  });

  test("that are truncated are refused", async () => {
    await refusalOf(modelText(), (path) => truncate(`${path}/lab.pt`, 1000));
  });

  test("that are empty are refused", async () => {
    await refusalOf(modelText(), (path) => truncate(`${path}/lab.pt`, 0));
  });

  test("with another input name are refused, with the name", async () => {
    const line = await refusalOf(modelText(tensorsWith("pixels: float32(), steps: int64()")));
    expect(line).toContain("pixels");
  });

  test("with an additional input are refused", async () => {
    const preprocess = "({ x }) => ({ x: tensor(Float32Array.of(x), []) })";
    const line = await refusalOf(modelText({ ...tensorsWith("x: float32()"), preprocess }));
    expect(line).toContain("steps");
  });

  test("with more outputs than declared are refused", async () => {
    const line = await refusalOf(modelText(tensorsWith("x: float32(), steps: int64()", "y: float32()")));
    expect(line).toMatch(/output/);
  });

  test("with another rank than declared are refused", async () => {
    const tensors = tensorsWith("x: float32(), steps: int64()", "y: float32(3), together: int64()");
    expect(await refusalOf(modelText(tensors))).toContain("y");
  });

  test("with another dtype than declared are refused", async () => {
    const tensors = tensorsWith("x: float32(), steps: int64()", "y: float32(), together: int32()");
    expect(await refusalOf(modelText(tensors))).toMatch(/together.*int(32|64)/);
  });
});

describe("preprocess", () => {
  test.each([
    [
      "another dtype",
      "() => ({ x: tensor(Int32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) })",
      "int32()",
    ],
    [
      "another rank",
      "() => ({ x: tensor(Float32Array.of(1), [1]), steps: tensor(BigInt64Array.of(0n), []) })",
      "float32(1)",
    ],
    ["one tensor too few", "() => ({ x: tensor(Float32Array.of(1), []) })", '"steps"'],
    ["nothing", "() => undefined", "preprocess gave no tensors"],
    ["what is no tensor", "() => ({ x: 1, steps: 2 })", 'input "x"'],
  ])("that gives %s is refused", async (_, preprocess, part) => {
    expect(await refusalOf(modelText({ preprocess }))).toContain(part);
  });
});

describe("an output", () => {
  test("that does not match its declaration is refused", async () => {
    const line = await refusalOf(modelText({ postprocess: '() => ({ y: "high" })' }));
    expect(line).toContain("output.y: ");
    expect(line).toContain("does not fit its declared output");
  });

  test("with an undeclared field is refused", async () => {
    expect(await refusalOf(modelText({ postprocess: "() => ({ y: 1, z: 2 })" }))).toContain('"z"');
  });

  test("that is undefined is refused", async () => {
    expect(await refusalOf(modelText({ postprocess: "() => undefined" }))).toContain("output");
  });
});

describe("serving", () => {
  test("an unknown model fails with code 1, and lists the known models", async () => {
    await using store = await storeWith("lab");
    const options = { env: { SCONCE_HOME: store.home } };
    for (const [reference, part] of [
      ["labs", 'did you mean "lab"?'],
      ["lab:v9", 'no tag "v9"'],
    ] as const) {
      const { code, stderr } = await cli(["serve", reference, "-p", "0"], options);
      expect({ code, lines: stderr.trim().split("\n").length }).toEqual({ code: 1, lines: 1 });
      expect(stderr).toContain(part);
    }
  });

  test("an empty store fails with a hint to build a model", async () => {
    await using empty = await tempDir();
    const { code, stderr } = await cli(["serve", "-p", "0"], { env: { SCONCE_HOME: empty.path } });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^sconce: .*sconce build DIR/);
  });
});
