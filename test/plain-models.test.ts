/** Models from a weights file alone: `build FILE`, `serve FILE` and `init --from FILE` generate the model.ts. */
import { describe, expect, test } from "bun:test";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { compiledPath, isRefused } from "../src/cli/build/plain/compiled-program.ts";
import { inputsOfProgram } from "../src/cli/build/plain/exported-program.ts";
import { runnableWeights } from "../src/cli/build/plain/plain-model.ts";
import { inputOption } from "../src/cli/build/plain/tensor-input.ts";
import { Archive } from "../src/machine/files/archive.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { clientOf } from "./helpers/cli.ts";
import { commandLine } from "./helpers/command-line.ts";
import { failure, refusal } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelConfig, modelLayers } from "./helpers/model-content.ts";
import { withSource } from "./helpers/rewritten-package.ts";
import { modelFolder } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

const weights = await fixtures();
const programs = weights.path("programs");
const build = (...args: string[]) => sconce.cliHere(["build", ...args]);
const program = (name: string) => Archive.open(join(programs, name))?.text(/models\/model\.json$/) ?? "";

const started = (model: string, env = {}) =>
  sconce.startCli(["serve", model, "--port", "0", "--host", "127.0.0.1", "--log-level", "info"], { env });
const { path } = weights.get("aotinductor float32 one tuple");

const dir = fixture(tempDir);
const sconce = fixture(() =>
  commandLine({ env: { SCONCE_HOME: dir.join("home"), SCONCE_CACHE_DIR: dir.join("cache") } }),
);

/** The path in this cache of the package that `build --aot` compiles from tuple.pt2. */
async function compiledIn(cache: string, batchSize?: number): Promise<string> {
  process.env.SCONCE_CACHE_DIR = cache;
  return compiledPath(join(programs, "tuple.pt2"), batchSize).finally(() => delete process.env.SCONCE_CACHE_DIR);
}

/** Parsed output of `sconce predict` with these arguments; its standard error if it prints no output. */
async function predict(model: string, ...fields: string[]): Promise<unknown> {
  const { stdout, stderr } = await sconce.cliHere(["predict", model, ...fields]);
  return stdout === "" ? stderr : JSON.parse(stdout);
}

describe("an exported program", () => {
  test("describes names, dtypes, free sizes and bounds", () => {
    const batch = { name: "batch", min: 1, max: 16, hint: 3 };
    const length = { name: "tokens_1", min: 4, max: 512, hint: 7 };
    expect(inputsOfProgram(program("masked.pt2"))).toEqual([
      { name: "tokens", dtype: "int64", sizes: [batch, length] },
      { name: "mask", dtype: "float32", sizes: [batch, length] },
    ]);
  });

  test("runs without changes and without Python, under the names of its inputs and outputs", async () => {
    // With this variable Python cannot find its library, so it does not start.
    const env = { PYTHONHOME: dir.join("nowhere") };
    const { code } = await sconce.cliHere(["build", join(programs, "masked.pt2")], { env });
    expect(code).toBe(0);
    expect(await predict("masked", "tokens=[1, 2, 3, 4]", "mask=[1, 1, 0, 0.5]")).toEqual({
      total: 5,
      each: [1, 2, 0, 2],
      twice: [1, 2, 0, 2, 1, 2, 0, 2],
    });
  });

  test("is compiled once with --aot, and serves like the compiled package, but with the program's names", async () => {
    // Compiling takes half a minute, so the compiled package is put into the cache beforehand.
    const kept = await compiledIn(dir.join("cache"), 5);
    await mkdir(dirname(kept), { recursive: true });
    await copyFile(path, kept);
    const built = await build(join(programs, "tuple.pt2"), "--aot", "--batch-size", "5");
    expect(built.stdout).toMatch(/^tuple:/);
    const { config } = await new ModelStore(dir.join("home")).resolve("tuple");
    expect(config).toMatchObject({ batchSize: 5, device: "cpu" });
    expect(await predict("tuple", "--example")).toMatchObject({ output1: [0.5, 0.5, 0.5] });
  });

  test("whose compiled package accepts fewer rows is built for those", async () => {
    const kept = await compiledIn(dir.join("few-rows"));
    const compiled = await readFile(path);
    await Bun.write(kept, withSource(compiled, "expected to be <= 4096", "expected to be <=   12"));
    const env = { SCONCE_CACHE_DIR: dir.join("few-rows") };
    const { code } = await sconce.cliHere(["build", join(programs, "tuple.pt2"), "--aot", "-t", "few"], { env });
    expect(code).toBe(0);
    expect((await new ModelStore(dir.join("home")).resolve("few")).config.batchSize).toBe(12);
  });

  test("is refused if it cannot be compiled", async () => {
    const args = ["build", join(programs, "masked.pt2"), "--aot"];
    expect(await sconce.cliHere(args, { env: { PYTHONHOME: dir.join("nowhere") } })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /masked\.pt2 is an exported program, and can't be compiled here \(.+\): install a C/,
      ),
    });
  });

  test("says of AOTInductor's error whether a tool is missing or the program is not supported", () => {
    const [missing, unsupported] = [
      "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')",
      "KeyError: s77",
    ].map((why) => `Traceback (most recent call last):\n  …\ntorch._inductor.exc.InductorError: ${why}\n\nSet …`);
    const errors = [missing, unsupported, "ModuleNotFoundError: No module named 'torch'"].map(String);
    expect(errors.map(isRefused)).toEqual([false, true, false]);
  });

  test("has the tensors among its arguments as inputs", () => {
    expect(inputsOfProgram(program("number.pt2"))).toMatchObject([{ name: "x" }]);
  });
});

describe("a TorchScript module", () => {
  const tokens = ["--input", "ids=int64[N,T]", "--input", "mask=float32[N,T]"];

  test("needs --input for each input; outputs and their free sizes are found by running it", async () => {
    const { code, stderr } = await sconce.cliHere(["init", "texts", "--from", weights.path("tokens.pt"), ...tokens], {
      cwd: dir.path,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const text = await readFile(dir.join("texts/model.ts"), "utf8");
    expect(text).not.toContain("device");
    for (const part of ['ids: int64("T")', 'each: float32("T", 4)', "mean: float32(4)"]) expect(text).toContain(part);
    expect((await build(dir.join("texts"))).stdout).toMatch(/^texts:/);
  });

  test.each([
    ["no --input", "tokens.pt", [], "tokens.pt does not say the sizes of its inputs: give each"],
    ["other names", "identity.pt", ["y=float32[N,2]"], "forward takes (x)"],
    ["an output without a batch", "total.pt", ["x=float32[N,2]"], "the output output0 has no batch dimension"],
    ["what it can't be run with", "mismatch.pt", ["x=float32[N,2]"], "can't be run with zeros (batch 2): "],
    [
      "several batches",
      "tokens.pt",
      ["ids=int64[N,T]", "mask=float32[M,T]"],
      "must be the batch, the same one for all",
    ],
  ])("is refused with %s", async (_, file, inputs, part) => {
    const { code, stderr } = await build(weights.path(file), ...inputs.flatMap((input) => ["--input", input]));
    expect(code).toBeGreaterThan(0);
    expect(stderr).toContain(part);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });
});

test("a batch size that --input fixes is reported, and limits the batches", async () => {
  expect(
    await sconce.cliHere(["init", "one", "--from", weights.path("identity.pt"), "--input", "x=float32[1,2]"], {
      cwd: dir.path,
    }),
  ).toMatchObject(refusal(0, "fixed at 1"));
  expect(await readFile(dir.join("one/model.ts"), "utf8")).toContain("batchSize: 1,");
});

test("an output of the weights that is None is no output of the model", async () => {
  const input = ["--input", "x=float32[N,3]"];
  await build(join(programs, "partial.pt2"));
  for (const file of ["partialnamed.pt", "partialtuple.pt"]) await build(weights.path(file), ...input);
  const named = { low: [0, 1, 2], high: [2, 3, 4] };
  expect(await predict("partial", "x=[1, 2, 3]")).toEqual(named);
  expect(await predict("partialnamed", "x=[1, 2, 3]")).toEqual(named);
  expect(await predict("partialtuple", "x=[1, 2, 3]")).toEqual({ output0: named.low, output1: named.high });
});

test("--input is a name, a dtype and sizes, with the batch first", () => {
  expect(inputOption.parse.parse("x=float32[N, 3,height]")).toMatchObject([
    { name: "x", dtype: "float32", sizes: [{ name: "N" }, 3, { name: "height" }] },
  ]);
  for (const wrong of ["x", "x=float31[N]", "x=float32[]", "x=float32[N,0]", "x=toString[N]", "1=float32[N]"]) {
    expect(inputOption.parse.safeParse(wrong).error?.issues[0]?.message).toContain("like x=float32[N,784]");
  }
});

test("a file without a network is recognized, and the error says how to get one", async () => {
  const header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}';
  const files: Record<string, [content: string, message: string]> = {
    "pointer.pt": ["version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "run: git lfs pull"],
    "legacy.pt": ["\x80\x02\x8a\x0al\x19.\x80\x02ccollections\nOrderedDict\n", "it is a pickle, such as a state dict"],
    "numbers.safetensors": [
      `${String.fromCharCode(header.length)}${"\0".repeat(7)}${header}`,
      "it is a safetensors file",
    ],
  };
  for (const [name, [content, message]] of Object.entries(files)) {
    await Bun.write(dir.join(name), Buffer.from(content, "latin1"));
    expect(await failure(runnableWeights(dir.join(name)))).toStartWith(`weights_invalid: ${name}: `);
    expect(await failure(runnableWeights(dir.join(name)))).toContain(message);
  }
  expect(await build(weights.path("checkpoint.pt"))).toMatchObject(refusal(1, "checkpoint.pt: "));
});

test("`serve FILE` packages the file under its name, and serves arrays as lists or bytes", async () => {
  await using server = started(path);
  expect(await server.line("Packaged")).toMatch(`as ${basename(path, ".pt2")}:`);
  const client = await clientOf(server);
  const rows = [4, 3, 2].map((x) => Array(4).fill(x));
  const bytes = Buffer.from(Float32Array.from(rows.flat()).buffer).toString("base64");
  const { outputs } = await client.predict([
    { input0: rows },
    { input0: `data:application/octet-stream;base64,${bytes}` },
  ]);
  expect(outputs?.[0]).toMatchObject({ output0: [[11, 15, 19, 23], expect.anything(), expect.anything()] });
  expect(outputs?.[1]).toEqual(outputs?.[0]);
});

test("`serve /FOLDER` packages the model or the only weights file of the folder, and refuses several", async () => {
  const folder = dir.join("mounted");
  await mkdir(folder);
  await copyFile(path, join(folder, "network.pt2"));
  await using server = started(folder);
  expect(await server.line("Packaged")).toMatch("as network:");
  const client = await clientOf(server);
  expect(await client.json("/v2/models/network/ready")).toEqual({ ready: true });
  await copyFile(path, join(folder, "second.pt2"));
  expect(await sconce.cliHere(["serve", folder])).toMatchObject(refusal(2, "found network.pt2, second.pt2"));
  await using declared = started(modelFolder("picture"));
  expect(await declared.line("Packaged")).toMatch("as picture:");
});

test("`serve FILE` does not change the tag latest of another model with the file's name", async () => {
  const repository = basename(path, ".pt2");
  const store = new ModelStore(dir.join("other-home"));
  const other = await store.put({ repository, config: modelConfig(), layers: modelLayers("other") });
  await using server = started(path, { SCONCE_HOME: store.home });
  const [, reference] = /Packaged .* as (\S+)/.exec(await server.line("Packaged")) ?? [];
  expect((await store.resolve(reference)).digest).not.toBe(other.digest);
  expect((await store.resolve(repository)).digest).toBe(other.digest);
});

test("a file of another format is refused with the accepted formats", async () => {
  await using dir = await tempDir();
  await Bun.write(dir.join("net.onnx"), "\b\u0007 another format");
  expect(await build(dir.join("net.onnx"))).toMatchObject(refusal(1, "net.onnx: "));
});

test("options for weights files are refused for a folder", async () => {
  const folder = join(import.meta.dir, "models/lab");
  expect((await build(folder, "--input", "x=float32[N]")).stderr).toContain("are for a weights file");
});
