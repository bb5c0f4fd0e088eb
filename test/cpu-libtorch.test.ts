/** Programs that contain libtorch get libtorch for CPUs, also where the installed torch is for GPUs. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { findAddon } from "../src/machine/libtorch/find-addon.ts";
import { libraryFiles } from "../src/package/executable/library-files.ts";
import { run } from "./helpers/child-output.ts";
import { tempDir } from "./helpers/fixture.ts";

/** An index on a port of this machine where nothing listens. */
const index = "http://localhost:1/cpu";

const module = join(dirname(import.meta.dir), "src/machine/libtorch/cpu-libtorch.ts");

/** A PATH whose Python "installs" torch 2.99.0 for CPUs, and records its arguments. */
function pythonIn(folder: string, code = 0): string {
  const script = `#!/bin/sh
echo "$*" >> '${join(folder, "calls")}'
[ ${code} = 0 ] || { echo 'ERROR: No matching distribution' >&2; exit ${code}; }
while [ "$1" != --target ]; do shift; done
/bin/mkdir -p "$2/torch/lib"
: > "$2/torch/lib/libtorch_cpu.so"
echo "__version__ = '2.99.0+cpu'" > "$2/torch/version.py"
`;
  writeFileSync(join(folder, "python3"), script, { mode: 0o755 });
  return folder;
}

function found(PATH: string, cache: string) {
  const script = `import { cpuLibtorch } from ${JSON.stringify(module)};
    console.log(await cpuLibtorch("2.99.0+cu130").catch(({ code, message }) => code + ": " + message));`;
  return run([process.execPath, "-e", script], { env: { PATH, SCONCE_CACHE_DIR: cache, SCONCE_TORCH_INDEX: index } });
}

test("pip installs torch for CPUs of the same release once, and a line says so", async () => {
  await using dir = await tempDir();
  const [path, cache] = [pythonIn(dir.path), dir.join("cache")];
  const first = await found(path, cache);
  expect(first.stdout).toBe(`${cache}/torch-2.99.0-cpu/torch\n`);
  expect(first.stderr).toContain("Installing torch 2.99.0 for CPUs with pip, once: 200 MB");
  expect(first.stderr).toContain("libtorch 2.99.0+cu130 is for GPUs: taking libtorch 2.99.0+cpu for CPUs");
  expect((await found(path, cache)).stdout).toBe(first.stdout);
  const calls = readFileSync(dir.join("calls"), "utf8").trimEnd().split("\n");
  expect(calls).toHaveLength(1);
  expect(calls[0]).toContain(`--index-url ${index} --target `);
  expect(calls[0]).toEndWith(" torch==2.99.0");
});

test("the error of a failed installation has pip's last line and two ways on", async () => {
  await using dir = await tempDir();
  const { stdout } = await found(pythonIn(dir.path, 1), dir.join("cache"));
  expect(stdout).toContain(`native_unavailable: pip found no torch 2.99.0 in ${index} (ERROR: No matching`);
  expect(stdout).toContain("SCONCE_TORCH_INDEX, or compile with --libtorch external");
});

test("the libraries of a program come from the libtorch for CPUs", async () => {
  await using dir = await tempDir();
  const { libtorch } = findAddon();
  mkdirSync(dir.join("lib"));
  for (const name of readdirSync(join(libtorch, "lib")))
    symlinkSync(join(libtorch, "lib", name), dir.join("lib", name));
  writeFileSync(dir.join("version.py"), "__version__ = '2.13.7+cpu'\n");
  const files = await libraryFiles(dir.path);
  expect(files.torch).toBe("2.13.7+cpu");
  expect(files.libtorch.find(({ name }) => name === "libtorch_cpu.so")?.path).toBe(dir.join("lib/libtorch_cpu.so"));
});
