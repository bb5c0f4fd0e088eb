/**
 * Step "libtorch": from `$LIBTORCH`, else from the torch of the Python on the PATH, else installed into the checkout with pip.
 * What was found is written to .sconce/libtorch.json for the build of the addon, the program and the tests.
 */

import { existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { defaultTorch, libtorchBuild, libtorchRelease } from "../../src/machine/libtorch/libtorch-build.ts";
import { Failure, missingTool, run } from "./command.ts";
import type { Python } from "./python.ts";
import { pythonEnvironment, pythonsOnPath } from "./python.ts";
import type { Step, StepContext } from "./step.ts";
import { readText, root, state } from "./step.ts";

/** The content of .sconce/libtorch.json. */
export interface Libtorch {
  /** The folder with lib/ and include/. */
  root: string;
  /** "2.13.0" */
  version: string;
  /** "2.13.0+cpu": the version with what it was built for. */
  build: string;
  /** A Python that can import torch, with what has to be put in front of its PYTHONPATH for it; for tests and export scripts only. */
  python: { command: string; path: string | null } | null;
}

const installed = { version: defaultTorch, folder: join(state, "torch") };
const supported = { first: [2, 11], last: [2, 15], pythonAtLeast: [3, 10] } as const;
const range = `${supported.first.join(".")} to ${supported.last.join(".")}`;
const recordPath = join(state, "libtorch.json");
const library = process.platform === "darwin" ? "libtorch_cpu.dylib" : "libtorch_cpu.so";

export const libtorch: Step = {
  name: "libtorch",

  inputs: () => JSON.stringify([process.env.LIBTORCH ?? null, pythonEnvironment(), installed.version]),

  isIntact() {
    const record = readLibtorch();
    return record !== undefined && isComplete(record.root) && libtorchBuild(record.root) === record.build;
  },

  async missingTools() {
    if (process.env.LIBTORCH) return [];
    const pythons = await pythonsOnPath();
    if (pythons.length === 0) return [missingTool("Python 3", { apt: "python3 python3-pip", brew: "python" })];
    if (pythons.some(hasSupportedTorch) || readInstalled()) return [];
    const python = pythons.find(isNewEnough);
    if (!python) {
      const newest = pythons.map((p) => p.version.join(".")).join(" and ");
      return [
        missingTool(`Python ${supported.pythonAtLeast.join(".")} or newer (there is ${newest})`, {
          apt: "python3 python3-pip",
          brew: "python",
        }),
      ];
    }
    return python.hasPip || python.hasVenv ? [] : [missingTool("pip", { apt: "python3-pip", brew: "python" })];
  },

  async run(context) {
    mkdirSync(state, { recursive: true });
    const pythons = await pythonsOnPath();
    const { source, ...record } = process.env.LIBTORCH
      ? fromVariable(process.env.LIBTORCH, pythons)
      : (fromPython(pythons, context) ?? (await fromPip(pythons, context)));
    writeFileSync(recordPath, `${JSON.stringify(record, null, 2)}\n`);
    return `${record.build}, ${source}`;
  },
};

/** What the last set-up found, if any. */
export function readLibtorch(): Libtorch | undefined {
  const text = readText(recordPath);
  return text === undefined ? undefined : JSON.parse(text);
}

/**
 * What that Python finds torch with. Compiling the modules that it imports takes most of its time, so they are kept, whatever the environment
 * says: the folder is the checkout's own.
 */
export function pythonVariables({ path }: { readonly path: string | null }): Record<string, string> {
  return path === null ? {} : { PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: "" };
}

/** A record, and where it came from in words. */
type Found = Libtorch & { source: string };

function fromVariable(value: string, pythons: Python[]): Found {
  const folder = resolve(root, value);
  const build = libtorchBuild(folder);
  const wrong = (what: string) =>
    new Failure([
      `LIBTORCH=${value}: ${what}. Let it name the folder torch of a Python's packages, or an unpacked libtorch, of version ${range}; or unset it.`,
    ]);
  if (!isComplete(folder)) throw wrong(`there is no lib/${library} or no include/torch/script.h in it`);
  if (build === undefined) throw wrong("it says its version neither in version.py nor in build-version");
  if (!isSupported(build)) throw wrong(`libtorch ${build} is not supported`);
  const owner = pythons.find((python) => python.torch !== null && resolve(python.torch) === folder);
  const reader = pythons.find((python) => holdsModulesFor(folder, python));
  const other = pythons.find(hasSupportedTorch);
  let python: Libtorch["python"] = null;
  if (owner) python = { command: owner.executable, path: null };
  else if (reader) python = { command: reader.executable, path: dirname(folder) };
  else if (other) python = { command: other.executable, path: null };
  return { root: folder, version: libtorchRelease(build), build, python, source: "from $LIBTORCH" };
}

function fromPython(pythons: Python[], { line }: StepContext): Found | undefined {
  const python = pythons.find(hasSupportedTorch);
  if (python?.torch) {
    const build = libtorchBuild(python.torch) ?? "";
    const record = {
      root: resolve(python.torch),
      version: libtorchRelease(build),
      build,
      python: { command: python.executable, path: null },
    };
    return { ...record, source: `of Python ${python.version.join(".")} on the PATH` };
  }
  for (const { torch, executable } of pythons) {
    const build = torch === null ? undefined : libtorchBuild(torch);
    if (torch === null) continue;
    line.note(
      build !== undefined && !isSupported(build)
        ? `torch ${build} of ${executable} is not ${range}; taking ${installed.version} (or: ${executable} -m pip install torch==${installed.version})`
        : `torch of ${executable} has no C++ headers or libraries in ${torch}; taking ${installed.version}`,
    );
  }
  return undefined;
}

async function fromPip(pythons: Python[], { line, verbose }: StepContext): Promise<Found> {
  const before = readInstalled();
  if (before) return { ...before, source: `in ${relative(root, installed.folder)}` };
  const python = pythons.find(isNewEnough);
  if (!python) throw new Failure(await libtorch.missingTools());

  // Left by a set-up that was killed; none other is at work, because the lock is ours.
  for (const name of readdirSync(state)) {
    if (name.startsWith("torch-")) rmSync(join(state, name), { recursive: true });
  }
  const unfinished = join(state, `torch-${process.pid}`);
  line.update(`installing torch ${installed.version} with pip`);
  let installer = python.executable;
  if (!python.hasPip) {
    const environment = join(state, "pip");
    await run([python.executable, "-m", "venv", "--clear", environment], { verbose });
    installer = join(environment, "bin", "python");
  }
  const target = ["--target", unfinished, `torch==${installed.version}`];
  // Compiling every module of torch and its dependencies doubles the time; Python compiles those it imports.
  const options = [
    "--no-cache-dir",
    "--no-compile",
    "--no-input",
    "--disable-pip-version-check",
    "--no-warn-script-location",
  ];
  await run([installer, "-m", "pip", "install", ...options, ...target], { verbose, env: { PIP_USER: "0" } });

  rmSync(installed.folder, { recursive: true, force: true });
  renameSync(unfinished, installed.folder);
  writeFileSync(join(installed.folder, "python"), python.executable);
  const after = readInstalled();
  if (!after) throw new Failure([`pip installed a torch without ${library} or headers into ${installed.folder}`]);
  return { ...after, source: `installed into ${relative(root, installed.folder)}` };
}

/** The torch that pip installed here, if it is whole and the Python that it was installed for still is there. */
function readInstalled(): Libtorch | undefined {
  if (!existsSync(installed.folder)) return undefined;
  // Where .sconce is a link, the record holds for all that share it, and outlives the link.
  const packages = realpathSync(installed.folder);
  const folder = join(packages, "torch");
  const build = libtorchBuild(folder);
  const command = readText(join(packages, "python"));
  if (!build || libtorchRelease(build) !== installed.version || !command || !existsSync(command) || !isComplete(folder))
    return undefined;
  return { root: folder, version: installed.version, build, python: { command, path: packages } };
}

function hasSupportedTorch({ torch }: Python): boolean {
  const build = torch === null ? undefined : libtorchBuild(torch);
  return torch !== null && build !== undefined && isSupported(build) && isComplete(torch);
}

function holdsModulesFor(folder: string, { tag }: Python): boolean {
  return readdirSync(folder).some((name) => name.startsWith(`_C.${tag}`));
}

function isComplete(folder: string): boolean {
  return existsSync(join(folder, "lib", library)) && existsSync(join(folder, "include", "torch", "script.h"));
}

function isSupported(build: string): boolean {
  const [major = 0, minor = 0] = build.split(".").map(Number);
  return compare([major, minor], supported.first) >= 0 && compare([major, minor], supported.last) <= 0;
}

function isNewEnough({ version }: Python): boolean {
  return compare(version, supported.pythonAtLeast) >= 0;
}

function compare([major, minor]: readonly [number, number], other: readonly [number, number]): number {
  return major - other[0] || minor - other[1];
}
