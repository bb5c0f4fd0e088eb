/** Executable files without libtorch: they use the libtorch of the machine. */
import { describe, expect, test } from "bun:test";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { executable, failureOfProgram, startAndStop, startExecutable } from "../helpers/executable.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { writeTriple } from "../helpers/operators.ts";

/** An executable file of a model with custom operators. */
const external = fixture(async () => {
  await using folder = await tempDir();
  await writeTriple(folder.path, '["operators.so"]');
  return await executable(folder.path, ["--libtorch", "external"]);
}, 600_000);

describe("an executable file without libtorch", () => {
  const libtorch = readLibtorch();
  const predict = (env: Readonly<Record<string, string>>) =>
    startExecutable(external.path, ["predict", "--example"], env);

  test("is small, contains the libraries of custom operators, and serves with the libtorch of $LIBTORCH or the Python on the PATH", async () => {
    await using cache = await tempDir();
    const env = { SCONCE_CACHE_DIR: cache.path };
    // The file contains only the addon: with libtorch, its libraries take 90 MiB or more.
    expect(external.compiling.stderr).toMatch(/the libraries are [\d.]+ KiB of it/);
    const folder = libtorch?.root ?? "";
    await using bin = await tempDir();
    await writeFile(
      bin.join("python3"),
      `#!/bin/sh\nPYTHONPATH=${join(folder, "..")} exec ${libtorch?.python?.command} "$@"\n`,
      { mode: 0o755 },
    );
    for (const found of [{ LIBTORCH: folder }, { PATH: bin.path }]) {
      await using program = predict({ ...env, ...found });
      expect(JSON.parse((await program.stdout) || "null")).toEqual({ y: 6 });
    }
    expect(await startAndStop(external.path, { ...env, LIBTORCH: folder })).toEqual([]);
  });

  test("reports a missing libtorch, and one of another version", async () => {
    await using dir = await tempDir();
    const env = { SCONCE_CACHE_DIR: dir.join("cache") };
    const wayOut = "name a libtorch with LIBTORCH, such as the folder torch of Python's packages";
    expect(await failureOfProgram(predict(env))).toEqual({
      code: 1,
      line: `sconce: there is no libtorch: LIBTORCH is not set, and the Python on the PATH has no torch; ${wayOut}`,
    });
    expect((await failureOfProgram(predict({ ...env, LIBTORCH: dir.path }))).line).toBe(
      `sconce: ${dir.path} has no lib/libtorch_cpu.so; ${wayOut}`,
    );
    await mkdir(dir.join("lib"));
    await symlink(join(libtorch?.root ?? "", "lib/libtorch_cpu.so"), dir.join("lib/libtorch_cpu.so"));
    await writeFile(dir.join("build-version"), "1.13.1+cu117\n");
    expect((await failureOfProgram(predict({ ...env, LIBTORCH: dir.path }))).line).toStartWith(
      `sconce: ${dir.path} is libtorch 1.13.1+cu117, and this executable was compiled for ${libtorch?.version}; `,
    );
    await rm(dir.join("build-version"));
    await rm(dir.join("lib/libtorch_cpu.so"));
    await writeFile(dir.join("lib/libtorch_cpu.so"), "no library");
    expect((await failureOfProgram(predict({ ...env, LIBTORCH: dir.path }))).line).toContain(
      "libtorch_cpu.so cannot be loaded (",
    );
  });
});
