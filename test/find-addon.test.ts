/** The search for the native addon that was compiled for the installed libtorch. */
import { expect, test } from "bun:test";
import { addonFor } from "../src/machine/libtorch/find-addon.ts";
import { type TempDir, tempDir } from "./helpers/fixture.ts";

test("the addon for the minor version of libtorch is chosen", async () => {
  await using dir = await addons("2.9", "2.13", "2.14");
  expect(addonFor(await libtorch(dir, "2.13.1+cu130"), dir.path)).toBe(dir.join("2.13/sconce.node"));
});

test("without an addon for this libtorch, one line names the versions found and supported", async () => {
  await using dir = await addons("2.9", "2.13", "2.14");
  const newer = await libtorch(dir, "2.16.0");
  expect(() => addonFor(newer, dir.path)).toThrow(
    `torch 2.16.0 in ${newer}, but this sconce has addons for 2.9 to 2.14; install one of these versions of torch, or name its folder with LIBTORCH`,
  );
  const unknown = dir.join("unknown");
  expect(() => addonFor(unknown, dir.path)).toThrow(
    `torch of no known version in ${unknown}, but this sconce has addons`,
  );
});

async function addons(...minors: string[]): Promise<TempDir> {
  const dir = await tempDir();
  for (const minor of minors) await Bun.write(dir.join(minor, "sconce.node"), "");
  return dir;
}

async function libtorch(dir: TempDir, version: string): Promise<string> {
  await Bun.write(dir.join("torch", "version.py"), `__version__ = '${version}'\n`);
  return dir.join("torch");
}
