/**
 * The set-up of a checkout. Its steps run in copies of the scripts, in temporary folders, with scripts in place of the
 * tools.
 */

import { expect, test } from "bun:test";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { isSetUp } from "../scripts/setup.ts";
import { run as runProgram } from "./helpers/child-output.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";

const root = dirname(import.meta.dir);
const dir = fixture(tempDir);
const folder = () => mkdtempSync(dir.join("setup-"));

test("the set-up does nothing the second time", async () => {
  expect(isSetUp(), "npm test sets up before it tests; npm run setup does so for bun test").toBe(true);
  const { code, output } = await run([process.execPath, "scripts/setup.ts"], { cwd: root });
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/^✓ set-up +nothing to do +\S+ m?s\n$/) });
});

test("every missing tool is named with the command that installs it, before anything is installed", async () => {
  const checkout = copy("scripts", "package.json", "bun.lock", "bunfig.toml", "CMakeLists.txt", "native");
  const { code, output } = await run([process.execPath, "scripts/setup.ts"], { cwd: checkout, path: folder() });
  expect(code).toBe(1);
  const lines = output.trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  for (const [index, tool] of ["Python 3", "CMake", "Ninja or Make", "a C\\+\\+ compiler"].entries()) {
    expect(lines[index]).toMatch(new RegExp(`^✗ missing +${tool}: (sudo )?(apt|dnf|brew) install [a-z0-9+ -]+$`));
  }
  expect(existsSync(join(checkout, "node_modules"))).toBe(false);
});

test("$LIBTORCH takes precedence over the torch of the Python on the PATH", async () => {
  const checkout = copy("scripts");
  const [chosen, other] = [fakeLibtorch("2.11.0"), fakeLibtorch("2.13.0+cpu")];
  const path = fakePython({ torch: other });
  await runLibtorch(checkout, { path, LIBTORCH: chosen });
  expect(recordOf(checkout)).toMatchObject({
    root: chosen,
    version: "2.11.0",
    python: { command: join(path, "python3") },
  });
});

test("an existing torch of the Python on the PATH is used", async () => {
  const checkout = copy("scripts");
  const torch = fakeLibtorch("2.12.1+cu130");
  const path = fakePython({ torch });
  const { output } = await runLibtorch(checkout, { path });
  expect(output).toMatch(/^✓ libtorch +2\.12\.1\+cu130, of Python 3\.11 on the PATH +\d/);
  expect(recordOf(checkout)).toEqual({
    root: torch,
    version: "2.12.1",
    build: "2.12.1+cu130",
    python: { command: join(path, "python3"), path: null },
  });
});

test("the torch of the last set-up stays in use where the Python on the PATH has none, without an installation", async () => {
  const checkout = copy("scripts");
  const torch = fakeLibtorch("2.14.1+cu130");
  const [environment, plain] = [fakePython({ torch }), fakePython({ torch: null })];
  await runLibtorch(checkout, { path: environment });
  const record = recordOf(checkout);
  const { output } = await runLibtorch(checkout, { path: plain });
  expect(output).toMatch(/^✓ libtorch +2\.14\.1\+cu130, of the last set-up, in /);
  expect(recordOf(checkout)).toEqual(record);
  expect(existsSync(join(plain, "installed"))).toBe(false);
  rmSync(join(torch, "lib"), { recursive: true });
  await runLibtorch(checkout, { path: plain });
  expect(recordOf(checkout)).toMatchObject({ version: "2.13.0" });
});

test("without a torch, the supported version is installed into the checkout with pip", async () => {
  const checkout = copy("scripts");
  const { code, output } = await runLibtorch(checkout, { path: fakePython({ torch: null }) });
  expect(code, output).toBe(0);
  const found = { root: join(checkout, ".sconce/torch/torch"), version: "2.13.0" };
  expect(recordOf(checkout)).toMatchObject(found);
  // Another checkout whose .sconce is a link to this one must not write its own paths there.
  const sharing = copy("scripts");
  symlinkSync(join(checkout, ".sconce"), join(sharing, ".sconce"));
  await runLibtorch(sharing, { path: fakePython({ torch: null }) });
  expect(recordOf(checkout)).toMatchObject(found);
});

test("torch is the build for CPUs of PyTorch's index, or of pip's default index if that cannot be reached", async () => {
  using index = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => new Response(null, { status: new URL(url).pathname === "/cpu/torch/" ? 200 : 404 }),
  });
  const pipOf = async (SCONCE_TORCH_INDEX: string) => {
    const path = fakePython({ torch: null });
    const { code, output } = await runLibtorch(copy("scripts"), { path, SCONCE_TORCH_INDEX });
    expect(code, output).toBe(0);
    return readFileSync(join(path, "installed"), "utf8");
  };
  expect(await pipOf(`${index.url}cpu`)).toContain(` --index-url ${index.url}cpu `);
  expect(await pipOf(`${index.url}elsewhere`)).not.toContain("--index-url");
});

test("CMake and Ninja are installed with pip if they are missing, and are on the PATH of the build", async () => {
  const checkout = copy("scripts", "package.json");
  const path = fakePython({ torch: null });
  const script = `const context = { line: { update() {} }, verbose: false };
    const { buildTools, missingBuildTools } = await import("./scripts/setup/build-tools.ts");
    console.log(JSON.stringify([await missingBuildTools(), await buildTools(context), await buildTools(context)]));`;
  const { output } = await runScript(checkout, script, { path });
  const [missing, first, second] = JSON.parse(output);
  expect(missing).toEqual([]);
  expect(first).toEqual(second);
  expect(first.PATH).toMatch(/\/\.sconce\/tools\/cmake==[\d.]+,ninja==[\d.]+\/cmake\/data\/bin:/);
  expect(readFileSync(join(path, "installed"), "utf8").match(/cmake==/g)).toHaveLength(2);
});

test("a torch of an unsupported version is reported with the fix, and stays unchanged", async () => {
  const checkout = copy("scripts");
  const path = fakePython({ torch: fakeLibtorch("2.6.0") });
  const { code, output } = await runLibtorch(checkout, { path });
  expect(output).toContain(`torch 2.6.0 of ${path}/python3 is not 2.11 to 2.15; taking 2.13.0`);
  expect(output).toContain(`${path}/python3 -m pip install torch==2.13.0`);
  expect(code).toBe(0);
  expect(recordOf(checkout)).toMatchObject({ root: join(checkout, ".sconce/torch/torch") });
});

test("an unusable $LIBTORCH is refused with the reason and the fix", async () => {
  const checkout = copy("scripts");
  const old = await runLibtorch(checkout, { path: fakePython({ torch: null }), LIBTORCH: fakeLibtorch("2.6.0+cpu") });
  expect(old.code).toBe(1);
  expect(old.output).toMatch(
    /LIBTORCH=\S+: libtorch 2\.6\.0\+cpu is not supported\. .*of version 2\.11 to 2\.15; or unset it\./,
  );
  const empty = await runLibtorch(checkout, { path: fakePython({ torch: null }), LIBTORCH: folder() });
  expect(empty.output).toMatch(/there is no lib\/libtorch_cpu\.\w+ or no include\/torch\/script\.h in it/);
});

test("libtorch is searched again only if $LIBTORCH, the Python or its folder has changed", async () => {
  const checkout = copy("scripts");
  const torch = fakeLibtorch("2.13.0");
  const path = fakePython({ torch });
  const isDone = async (options: { path: string; LIBTORCH?: string }) =>
    (await runScript(checkout, `console.log(isDone(libtorch))`, options)).output.trim();
  await runLibtorch(checkout, { path });
  expect(await isDone({ path })).toBe("true");
  expect(await isDone({ path, LIBTORCH: torch })).toBe("false");
  expect(await isDone({ path: fakePython({ torch }) })).toBe("false");
  rmSync(join(torch, "lib"), { recursive: true });
  expect(await isDone({ path })).toBe("false");
});

test("the addon is compiled again if its sources or libtorch have changed, but not if the checkout was moved", async () => {
  const checkout = copy("scripts", "package.json", "CMakeLists.txt", "native");
  const torch = fakeLibtorch("2.13.0");
  const path = fakePython({ torch });
  await runLibtorch(checkout, { path });
  const isAddonDone = async (where: string) =>
    (await runScript(where, "console.log(isDone(addon))", { path })).output.trim();
  // Files in place of a compiled addon: the test checks only when it counts as compiled.
  mkdirSync(join(checkout, "build/Release/libtorch"), { recursive: true });
  for (const name of ["sconce.node", "pixels.so"]) writeFileSync(join(checkout, "build/Release", name), "");
  await runScript(checkout, `writeStamp("addon", addon.inputs())`, { path });
  expect(await isAddonDone(checkout)).toBe("true");
  const moved = join(folder(), "elsewhere");
  cpSync(checkout, moved, { recursive: true });
  expect(await isAddonDone(moved)).toBe("true");
  const source = join(checkout, "native/session.cc");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\n`);
  expect(await isAddonDone(checkout)).toBe("false");
  writeFileSync(source, text);
  expect(await isAddonDone(checkout)).toBe("true");
  writeFileSync(join(checkout, "native/another.cc"), "");
  expect(await isAddonDone(checkout)).toBe("false");
  rmSync(join(checkout, "native/another.cc"));
  await runLibtorch(checkout, { path, LIBTORCH: fakeLibtorch("2.11.0") });
  expect(await isAddonDone(checkout)).toBe("false");
});

test("an addon that was compiled from the same sources is used for its torch, without compiling", async () => {
  const checkout = copy("scripts", "package.json", "CMakeLists.txt", "native");
  const torch = fakeLibtorch("2.14.1");
  const path = fakePython({ torch });
  await runLibtorch(checkout, { path });
  // Files in place of addons that this checkout compiled for two versions of torch.
  for (const minor of ["2.13", "2.14"]) {
    mkdirSync(join(checkout, minor));
    for (const name of ["sconce.node", "pixels.so"]) writeFileSync(join(checkout, minor, name), `of ${minor}`);
    await runScript(checkout, `keepAddon("${minor}", "${minor}")`, { path });
  }
  const setUp = async () =>
    (
      await runScript(checkout, "console.log(await addon.missingTools()); await perform(addon, { verbose: false })", {
        path,
      })
    ).output;
  expect(await setUp()).toMatch(/^\[\]\n✓ addon +compiled before, for torch 2\.14 /);
  expect(readFileSync(join(checkout, "build/Release/sconce.node"), "utf8")).toBe("of 2.14");
  expect(readFileSync(join(checkout, "build/Release/pixels.so"), "utf8")).toBe("of 2.14");
  expect(readlinkSync(join(checkout, "build/Release/libtorch"))).toBe(torch);
  await runLibtorch(checkout, { path, LIBTORCH: fakeLibtorch("2.13.0") });
  expect(await setUp()).toContain("compiled before, for torch 2.13");
  expect(readFileSync(join(checkout, "build/Release/sconce.node"), "utf8")).toBe("of 2.13");
  writeFileSync(join(checkout, "native/another.cc"), "");
  expect(await setUp()).toContain("CMake");
});

test("bun.lock is the only lock file, and names no registry", () => {
  expect(readFileSync(join(root, "bun.lock"), "utf8")).not.toMatch(/https?:/);
  for (const name of ["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb"]) {
    expect(existsSync(join(root, name))).toBe(false);
  }
});

/** Copies only the named files and folders, and what they import. @returns a folder that serves as a checkout */
function copy(...names: string[]): string {
  const checkout = folder();
  const shared = ["libtorch/libtorch-build.ts", "files/lock.ts"].map((name) => join("src/machine", name));
  for (const name of [...names, ...shared, "src/base/errors.ts"])
    cpSync(join(root, name), join(checkout, name), { recursive: true });
  return checkout;
}

function fakeLibtorch(version: string): string {
  const torch = folder();
  fillLibtorch(torch, version);
  return torch;
}

function fillLibtorch(torch: string, version: string): void {
  mkdirSync(join(torch, "lib"), { recursive: true });
  mkdirSync(join(torch, "include", "torch"), { recursive: true });
  for (const name of ["lib/libtorch_cpu.so", "lib/libtorch_cpu.dylib", "include/torch/script.h"])
    writeFileSync(join(torch, name), "");
  writeFileSync(join(torch, "version.py"), `__version__ = '${version}'\n`);
}

/**
 * A PATH with a script in place of `python3`. It answers the set-up's question for torch, and its pip "installs"
 * torch 2.13.0.
 */
function fakePython({ torch }: { torch: string | null }): string {
  const [path, wheel] = [folder(), folder()];
  fillLibtorch(join(wheel, "torch"), "2.13.0+cpu");
  const executable = join(path, "python3");
  const answer = { executable, version: [3, 11], tag: "cpython-311", hasPip: true, torch };
  const script = `#!/bin/sh
case $1 in -m) echo "$*" >> '${join(path, "installed")}' ;; esac
while [ $# -gt 0 ]; do
  case $1 in
    -c) echo '${JSON.stringify(answer)}' ; exit ;;
    --target) exec /bin/cp -r '${wheel}' "$2" ;;
  esac
  shift
done
`;
  writeFileSync(join(path, "python3"), script);
  chmodSync(join(path, "python3"), 0o755);
  return path;
}

interface RunOptions {
  path?: string;
  LIBTORCH?: string;
  SCONCE_TORCH_INDEX?: string;
}

function runLibtorch(checkout: string, options: RunOptions) {
  const script = `await perform(libtorch, { verbose: false }).catch((e) => { console.log(e.lines.join("\\n")); process.exit(1); })`;
  return runScript(checkout, script, options);
}

/** Runs statements that use the set-up's modules of this checkout. */
function runScript(checkout: string, statements: string, { path, ...env }: RunOptions) {
  const script = `import { appendFileSync, writeFileSync } from "node:fs";
    import { libtorch } from "./scripts/setup/libtorch.ts";
    import { run } from "./scripts/setup/command.ts";
    import { addon, keepAddon } from "./scripts/setup/addon.ts";
    import { isDone, perform, withLock, writeStamp } from "./scripts/setup/step.ts";
    ${statements}`;
  writeFileSync(join(checkout, "script.ts"), script);
  return run([process.execPath, "script.ts"], { cwd: checkout, ...(path ? { path } : {}), env });
}

function recordOf(checkout: string): unknown {
  return JSON.parse(readFileSync(join(checkout, ".sconce", "libtorch.json"), "utf8"));
}

interface CommandOptions {
  cwd: string;
  path?: string;
  env?: Record<string, string | undefined>;
}

function run(command: string[], { cwd, path, env = {} }: CommandOptions) {
  const changed = { ...env, ...(path ? { PATH: path, LIBTORCH: env.LIBTORCH } : {}) };
  // npm passes its settings, also those of this checkout, to child processes in variables `npm_config_NAME`.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("npm_config_"));
  const full = { ...Object.fromEntries(inherited), ...changed };
  return runProgram(command, { cwd, env: full });
}
