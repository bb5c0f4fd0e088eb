/** The folder that `sconce init` writes type-checks, in a checkout, outside it, and in a clone. `sconce check` finds type errors. */
import { beforeAll, expect, test } from "bun:test";
import { cp, readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { run } from "../helpers/child-output.ts";
import { cliHere } from "../helpers/command-here.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { fixtures } from "../helpers/weights.ts";

const root = resolve(import.meta.dir, "../..");

const dir = fixture(tempDir);
beforeAll(async () => {
  await cliHere(["init", "Paint Shop"], { cwd: dir.path });
});

async function compile(folder: string): Promise<{ code: number; output: string }> {
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const { code, stdout } = await run([process.execPath, "--bun", compiler, "-p", folder, "--pretty", "false"]);
  return { code, output: stdout };
}

test("the folder type-checks outside this checkout; a wrong field is a type error", async () => {
  expect(await compile(dir.join("Paint Shop"))).toEqual({ code: 0, output: "" });
  await cliHere(["init", "wrong"], { cwd: dir.path });
  const text = await readFile(dir.join("wrong", "model.ts"), "utf8");
  await Bun.write(dir.join("wrong", "model.ts"), text.replace("topK(probabilities,", "topK(probability,"));
  const { code, output } = await compile(dir.join("wrong"));
  expect(code).not.toBe(0);
  expect(output).toMatch(/^\S*model\.ts\(\d+,\d+\): error TS\d+/);
});

test("a folder made from weights with several inputs, outputs and free sizes type-checks", async () => {
  const { path } = await fixtures();
  const inputs = ["--input", "ids=int64[N,T]", "--input", "mask=float32[N,T]"];
  const { code, stdout } = await cliHere(["init", "texts", "--from", path("tokens.pt"), ...inputs], { cwd: dir.path });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Wrote texts: model.ts, tokens.pt,") });
  expect(await compile(dir.join("texts"))).toEqual({ code: 0, output: "" });
});

test("the folder contains no path of this machine; a clone of it type-checks after check", async () => {
  await cp(dir.join("Paint Shop"), dir.join("clone"), {
    recursive: true,
    filter: (path) => !path.endsWith(".sconce"),
  });
  for (const file of await readdir(dir.join("clone"))) {
    expect(await readFile(dir.join("clone", file), "latin1")).not.toContain(root);
  }
  expect((await compile(dir.join("clone"))).code).not.toBe(0);
  expect((await cliHere(["check", "clone"], { cwd: dir.path })).code).toBe(0);
  expect(await compile(dir.join("clone"))).toEqual({ code: 0, output: "" });
});

test("check finds type errors and restores a missing link to sconce's types", async () => {
  const folder = dir.join("unchecked");
  await cp(dir.join("Paint Shop"), folder, { recursive: true, filter: (path) => !path.endsWith(".sconce") });
  const checked = async () => JSON.parse((await cliHere(["check", folder, "--json"])).stdout).findings;
  expect(await checked()).toEqual([]);
  const text = await readFile(join(folder, "model.ts"), "utf8");
  await Bun.write(join(folder, "model.ts"), text.replace("batchSize: 32", 'batchSize: 32 as unknown as "32"'));
  const message = expect.stringMatching(/^model\.ts\(\d+,\d+\): error TS\d+: /);
  expect(await checked()).toEqual([{ mistake: "types", message, effect: "refused" }]);
  const built = await cliHere(["build", folder], { env: { SCONCE_HOME: dir.join("home") } });
  expect(built.code).not.toBe(0);
  expect(built.stderr).toMatch(/model\.ts has type errors: model\.ts\(\d+,\d+\): error TS\d+: /);
  // A TypeScript compiler in the model's folder takes precedence over sconce's.
  await Bun.write(join(folder, "node_modules/typescript/package.json"), '{ "bin": { "tsc": "tsc.js" } }');
  await Bun.write(
    join(folder, "node_modules/typescript/tsc.js"),
    'console.log("model.ts(1,1): error TS1: own"); process.exit(1)',
  );
  expect(await checked()).toMatchObject([{ message: "model.ts(1,1): error TS1: own" }]);
});
