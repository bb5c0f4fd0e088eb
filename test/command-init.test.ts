/** `sconce init` writes a folder that type-checks, builds, predicts and serves without a change. */
import { beforeAll, expect, test } from "bun:test";
import { mkdir, readdir } from "node:fs/promises";
import type { CliResult } from "./helpers/cli.ts";
import { cliHere } from "./helpers/command-here.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const files = [".gitignore", ".sconce", "README.md", "export.py", "model.pt2", "model.ts", "tsconfig.json"];

let written: CliResult;

const dir = fixture(tempDir);
beforeAll(async () => {
  written = await cliHere(["init", "Paint Shop"], { cwd: dir.path });
});

test("lists the written files and the next commands, ready to paste", async () => {
  expect({ code: written.code, stderr: written.stderr }).toEqual({ code: 0, stderr: "" });
  expect((await readdir(dir.join("Paint Shop"))).sort()).toEqual(files);
  for (const file of files) if (file !== ".sconce") expect(written.stdout).toContain(file);
  expect(written.stdout).toContain("  sconce build 'Paint Shop'\n  sconce predict paint-shop colour=#ff8800\n");
});

test("in a folder with sconce installed, sconce's types come from the installed package, without a link", async () => {
  await Bun.write(dir.join("installed/node_modules/sconce/package.json"), '{ "name": "sconce" }');
  expect((await cliHere(["init", "installed"], { cwd: dir.path })).code).toBe(0);
  const { extends: path } = await Bun.file(dir.join("installed/tsconfig.json")).json();
  expect(path).toBe("./node_modules/sconce/tsconfig.json");
  expect(await readdir(dir.join("installed"))).not.toContain(".sconce");
});

test("the folder builds, predicts and serves unchanged", async () => {
  await using store = await storeWith(dir.join("Paint Shop"));
  const named = async (colour: string) => {
    const { stdout } = await store.cliHere(["predict", "paint-shop", `colour=${colour}`]);
    return JSON.parse(stdout).name;
  };
  expect([await named("#ff8800"), await named("#000000"), await named("#2244dd")]).toEqual(["orange", "black", "blue"]);
  await using server = await store.serve("paint-shop");
  const { outputs } = await server.client.predict([{ colour: "#00aa33" }, { colour: "#ffffff" }]);
  expect(outputs?.map(({ name }) => name)).toEqual(["green", "white"]);
});

test("the folder may contain an empty repository", async () => {
  await mkdir(dir.join("named", ".git"), { recursive: true });
  expect((await cliHere(["init", "named"], { cwd: dir.path })).code).toBe(0);
});

test.each([
  ["a folder that is not empty", ["full"], "full must be a new or empty folder; it contains notes.txt"],
  ["a file", ["full/notes.txt"], "full/notes.txt must be a folder, not a file"],
  ["no folder", [], "missing argument DIR"],
])("is refused with exit code 2 and writes nothing: %s", async (_, args, part) => {
  await Bun.write(dir.join("full", "notes.txt"), "mine");
  const { code, stdout, stderr } = await cliHere(["init", ...args], { cwd: dir.path });
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(part);
  expect(await readdir(dir.join("full"))).toEqual(["notes.txt"]);
});
