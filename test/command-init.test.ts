/** `sconce init` writes a folder that type-checks, builds, predicts and serves without a change. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cp, mkdir, readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { checkTypes } from "../src/cli/commands/check/type-check.ts";
import { setSources } from "../src/package/executable/sources.ts";
import { type CliOptions, cli as run } from "./helpers/cli.ts";
import { cliHere } from "./helpers/command-here.ts";
import { storeWith } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { fixtures } from "./helpers/weights.ts";

const root = resolve(import.meta.dir, "..");
const files = [".gitignore", ".sconce", "README.md", "export.py", "model.pt2", "model.ts", "tsconfig.json"];

let dir: TempDir;
/**
 * Runs the command line from the sources: the compiled file has no TypeScript compiler, and prints no hints about a
 * checkout.
 */
const cli = (args: readonly string[], options: CliOptions = {}) => run(args, { ...options, isSource: true });
let written: Awaited<ReturnType<typeof cli>>;

beforeAll(async () => {
  dir = await tempDir();
  written = await cli(["init", "Paint Shop"], { cwd: dir.path });
});

afterAll(() => dir[Symbol.asyncDispose]());

async function compile(folder: string): Promise<{ code: number; output: string }> {
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const child = Bun.spawn([process.execPath, "--bun", compiler, "-p", folder, "--pretty", "false"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  return { code: await child.exited, output: await child.stdout.text() };
}

test("lists the written files and the next commands, ready to paste", async () => {
  expect({ code: written.code, stderr: written.stderr }).toEqual({ code: 0, stderr: "" });
  expect((await readdir(dir.join("Paint Shop"))).sort()).toEqual(files);
  for (const file of files) if (file !== ".sconce") expect(written.stdout).toContain(file);
  expect(written.stdout).toContain("  sconce build 'Paint Shop'\n  sconce predict paint-shop colour=#ff8800\n");
});

test("the folder type-checks outside this checkout; a wrong field is a type error", async () => {
  expect(await compile(dir.join("Paint Shop"))).toEqual({ code: 0, output: "" });
  await cli(["init", "wrong"], { cwd: dir.path });
  const text = await readFile(dir.join("wrong", "model.ts"), "utf8");
  await Bun.write(dir.join("wrong", "model.ts"), text.replace("topK(probabilities,", "topK(probability,"));
  const { code, output } = await compile(dir.join("wrong"));
  expect(code).not.toBe(0);
  expect(output).toMatch(/^\S*model\.ts\(\d+,\d+\): error TS\d+/);
});

test("a folder made from weights with several inputs, outputs and free sizes type-checks", async () => {
  const { path } = await fixtures();
  const inputs = ["--input", "ids=int64[N,T]", "--input", "mask=float32[N,T]"];
  const { code, stdout } = await cli(["init", "texts", "--from", path("tokens.pt"), ...inputs], { cwd: dir.path });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Wrote texts: model.ts, tokens.pt,") });
  expect(await compile(dir.join("texts"))).toEqual({ code: 0, output: "" });
});

test("the folder contains no path of this machine; a clone of it type-checks after init --link", async () => {
  await cp(dir.join("Paint Shop"), dir.join("clone"), {
    recursive: true,
    filter: (path) => !path.endsWith(".sconce"),
  });
  for (const file of await readdir(dir.join("clone"))) {
    expect(await readFile(dir.join("clone", file), "latin1")).not.toContain(root);
  }
  expect((await compile(dir.join("clone"))).code).not.toBe(0);
  expect((await cli(["init", "--link", "clone"], { cwd: dir.path })).code).toBe(0);
  expect(await compile(dir.join("clone"))).toEqual({ code: 0, output: "" });
});

test("the link to sconce's types is where npm would install the package", async () => {
  await cp(dir.join("Paint Shop"), dir.join("packaged"), { recursive: true, verbatimSymlinks: true });
  await Bun.write(dir.join("words", "package.json"), '{ "name": "words", "version": "1.0.0", "main": "index.js" }');
  await Bun.write(dir.join("words", "index.js"), "exports.two = 2;");
  const options = ["--offline", "--no-audit", "--no-fund", "--install-links"];
  const install = () =>
    Bun.spawn(["npm", "install", "../words", ...options], {
      cwd: dir.join("packaged"),
      stdout: "ignore",
      stderr: "pipe",
    });
  for (const _ of ["once", "again"]) {
    const npm = install();
    expect(await npm.exited, await npm.stderr.text()).toBe(0);
  }
  expect(await compile(dir.join("packaged"))).toEqual({ code: 0, output: "" });
});

test("check finds type errors and restores a missing link to sconce's types", async () => {
  const folder = dir.join("unchecked");
  await cp(dir.join("Paint Shop"), folder, { recursive: true, filter: (path) => !path.endsWith(".sconce") });
  const checked = async () => JSON.parse((await cli(["check", folder, "--json"])).stdout).findings;
  expect(await checked()).toEqual([]);
  const text = await readFile(join(folder, "model.ts"), "utf8");
  await Bun.write(join(folder, "model.ts"), text.replace("batchSize: 32", 'batchSize: 32 as unknown as "32"'));
  const message = expect.stringMatching(/^model\.ts\(\d+,\d+\): error TS\d+: /);
  expect(await checked()).toEqual([{ mistake: "types", message, effect: "unseen" }]);
  // A TypeScript compiler in the model's folder takes precedence over sconce's.
  await Bun.write(join(folder, "node_modules/typescript/package.json"), '{ "bin": { "tsc": "tsc.js" } }');
  await Bun.write(
    join(folder, "node_modules/typescript/tsc.js"),
    'console.log("model.ts(1,1): error TS1: own"); process.exit(1)',
  );
  expect(await checked()).toMatchObject([{ message: "model.ts(1,1): error TS1: own" }]);
});

test("check uses the tsconfig.json of a project that contains the folder", async () => {
  await Bun.write(dir.join("project/node_modules/globals/index.d.ts"), "declare const ours: string;");
  await Bun.write(
    dir.join("project/node_modules/globals/package.json"),
    '{ "name": "globals", "types": "index.d.ts" }',
  );
  await Bun.write(dir.join("project/model/model.ts"), "export const length: number = ours;\n");
  const settings = { compilerOptions: { types: ["globals"], noEmit: true }, include: ["."] };
  await Bun.write(dir.join("project/tsconfig.json"), JSON.stringify(settings));
  const { errors } = await checkTypes(dir.join("project/model"));
  expect(errors).toEqual([expect.stringMatching(/^model\.ts\(1,14\): error TS2322: Type 'string' is not assignable/)]);
});

test("check names the missing package if there is no TypeScript", async () => {
  await cp(dir.join("Paint Shop"), dir.join("untyped"), { recursive: true, verbatimSymlinks: true });
  await Bun.write(dir.join("untyped", "yarn.lock"), "");
  setSources(async () => dir.path);
  try {
    const skipped = "types were not checked: there is no package typescript: yarn add -D typescript";
    expect(await checkTypes(dir.join("untyped"))).toEqual({ errors: [], skipped });
  } finally {
    setSources(async () => root);
  }
});

test("in a folder with sconce installed, sconce's types come from the installed package, without a link", async () => {
  await Bun.write(dir.join("installed/node_modules/sconce/package.json"), '{ "name": "sconce" }');
  expect((await cli(["init", "installed"], { cwd: dir.path })).code).toBe(0);
  const { extends: path } = await Bun.file(dir.join("installed/tsconfig.json")).json();
  expect(path).toBe("./node_modules/sconce/tsconfig.json");
  expect(await readdir(dir.join("installed"))).not.toContain(".sconce");
});

test("prints how to put the command sconce on the PATH", () => {
  expect(written.stdout).toContain(`ln -s ${join(root, "scripts", "sconce")} ~/.local/bin/`);
});

test("the folder builds, predicts and serves unchanged", async () => {
  await using store = await storeWith(dir.join("Paint Shop"));
  const named = async (colour: string) => {
    const { stdout } = await cli(["predict", "paint-shop", `colour=${colour}`], { env: { SCONCE_HOME: store.home } });
    return JSON.parse(stdout).name;
  };
  expect([await named("#ff8800"), await named("#000000"), await named("#2244dd")]).toEqual(["orange", "black", "blue"]);
  await using server = await store.serve("paint-shop");
  const { outputs } = await server.client.predict([{ colour: "#00aa33" }, { colour: "#ffffff" }]);
  expect(outputs?.map(({ name }) => name)).toEqual(["green", "white"]);
});

test("model.ts has the same colour names as export.py, in the same order", async () => {
  const [model, script] = await Promise.all(
    ["model.ts", "export.py"].map((file) => readFile(dir.join("Paint Shop", file), "utf8")),
  );
  const names = [...(model ?? "").matchAll(/^ {2}"(\w+)",$/gm)].map(([, name]) => name);
  expect(names).toEqual([...(script ?? "").matchAll(/^ {4}\(.*\), {2}# (\w+)$/gm)].map(([, name]) => name));
});

test("--name names the model; the folder may contain an empty repository", async () => {
  await mkdir(dir.join("named", ".git"), { recursive: true });
  const { code, stdout } = await cli(["init", "named", "--name", "team/paint"], { cwd: dir.path });
  expect(code).toBe(0);
  expect(stdout).toContain("sconce serve team/paint\n");
  expect(await readFile(dir.join("named", "model.ts"), "utf8")).toContain('  name: "team/paint",\n');
});

describe("is refused with exit code 2 and writes nothing:", () => {
  test.each([
    ["a folder that is not empty", ["full"], "full must be a new or empty folder; it contains notes.txt"],
    ["a file", ["full/notes.txt"], "full/notes.txt must be a folder, not a file"],
    ["a link into a folder without a model", ["--link", "full"], "--link: full has no model.ts"],
    ["no folder", [], "missing argument DIR"],
    ["a name that no repository can have", ["new", "--name", "Paint"], 'did you mean "paint"?'],
  ])("%s", async (_, args, part) => {
    await Bun.write(dir.join("full", "notes.txt"), "mine");
    const { code, stdout, stderr } = await cliHere(["init", ...args], { cwd: dir.path });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(part);
    expect(await readdir(dir.join("full"))).toEqual(["notes.txt"]);
    expect(await Bun.file(dir.join("new", "model.ts")).exists()).toBe(false);
  });
});
