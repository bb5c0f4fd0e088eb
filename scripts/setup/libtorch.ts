/**
 * The set-up step "libtorch": takes `$LIBTORCH`, otherwise the torch of the Python on the PATH, otherwise the torch of
 * the last set-up, otherwise installs torch into the checkout with pip. The build of the addon, the program and the tests read the result in
 * .sconce/libtorch.json.
 */
import { existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import {
  defaultTorch,
  libtorchBuild,
  libtorchRelease,
  minorOf,
  torchMinors,
} from "../../src/machine/libtorch/libtorch-build.ts";
import { Failure, missingTool, run } from "./command.ts";
import { findPython, type Python, pythonEnvironment } from "./python.ts";
import type { Step, StepContext } from "./step.ts";
import { readText, root, state } from "./step.ts";

/** The content of .sconce/libtorch.json. */
export interface Libtorch {
  /** Folder of libtorch with lib/ and include/. */
  root: string;
  /** Release of libtorch: "2.13.0". */
  version: string;
  /** Release and kind of build: "2.13.0+cpu". */
  build: string;
  /**
   * A Python that can import torch; null without one. `path` is the folder to put first in its PYTHONPATH; null if none
   * is needed.
   */
  python: { command: string; path: string | null } | null;
}

/** Longest wait for PyTorch's index, in milliseconds. */
const INDEX_MS = 5000;
const installedFolder = join(state, "torch");
const range = `${torchMinors[0]} to ${torchMinors.at(-1)}`;
const oldestPython = [3, 10] as const;
const recordPath = join(state, "libtorch.json");
const library = process.platform === "darwin" ? "libtorch_cpu.dylib" : "libtorch_cpu.so";
const pythonPackages = { apt: "python3 python3-pip", brew: "python" };

export const libtorch: Step = {
  name: "libtorch",

  inputs: () => JSON.stringify([process.env.LIBTORCH ?? null, pythonEnvironment(), defaultTorch]),

  isIntact() {
    const record = readLibtorch();
    return record !== undefined && isComplete(record.root) && libtorchBuild(record.root) === record.build;
  },

  async missingTools() {
    if (process.env.LIBTORCH || fromLastTime() !== undefined) return [];
    const python = await findPython();
    if (python === undefined) return [missingTool("Python 3", pythonPackages)];
    if (hasSupportedTorch(python) || readInstalled()) return [];
    if (!isNewEnough(python)) {
      const wanted = `Python ${oldestPython.join(".")} or newer (there is ${python.version.join(".")})`;
      return [missingTool(wanted, pythonPackages)];
    }
    return python.hasPip ? [] : [missingTool("pip", { apt: "python3-pip", brew: "python" })];
  },

  async run(context) {
    mkdirSync(state, { recursive: true });
    const python = await findPython();
    const { source, ...record } = process.env.LIBTORCH
      ? fromVariable(process.env.LIBTORCH, python)
      : (fromPython(python, context) ?? fromLastTime() ?? (await fromPip(python, context)));
    writeFileSync(recordPath, `${JSON.stringify(record, null, 2)}\n`);
    return `${record.build}, ${source}`;
  },
};

/** The content of .sconce/libtorch.json; undefined before the first set-up. */
export function readLibtorch(): Libtorch | undefined {
  const text = readText(recordPath);
  return text === undefined ? undefined : JSON.parse(text);
}

/**
 * Environment variables with which Python finds torch. An empty PYTHONDONTWRITEBYTECODE lets Python cache compiled
 * modules.
 */
export function pythonVariables({ path }: { readonly path: string | null }): Record<string, string> {
  return path === null ? {} : { PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: "" };
}

type Found = Libtorch & { source: string };

function fromVariable(value: string, python: Python | undefined): Found {
  const folder = resolve(root, value);
  const build = libtorchBuild(folder);
  const wrong = (what: string) =>
    new Failure([
      `LIBTORCH=${value}: ${what}. It must be the folder torch of a Python's packages, or an unpacked libtorch, of version ${range}; or unset it.`,
    ]);
  if (!isComplete(folder)) throw wrong(`there is no lib/${library} or no include/torch/script.h in it`);
  if (build === undefined) throw wrong("it has no version in version.py or build-version");
  if (!isSupported(build)) throw wrong(`libtorch ${build} is not supported`);
  return { ...described(folder, build), python: readerOf(folder, python), source: "from $LIBTORCH" };
}

/** The Python on the PATH, if it can import the torch in `folder` or another supported torch; otherwise null. */
function readerOf(folder: string, python: Python | undefined): Libtorch["python"] {
  if (python === undefined) return null;
  const isOwn = python.torch !== null && resolve(python.torch) === folder;
  const hasModules = readdirSync(folder).some((name) => name.startsWith(`_C.${python.tag}`));
  if (!isOwn && hasModules) return { command: python.executable, path: dirname(folder) };
  return isOwn || hasSupportedTorch(python) ? { command: python.executable, path: null } : null;
}

function fromPython(python: Python | undefined, { line }: StepContext): Found | undefined {
  if (!python?.torch) return undefined;
  const { torch, executable, version } = python;
  const build = libtorchBuild(torch) ?? "";
  if (hasSupportedTorch(python)) {
    const source = `of Python ${version.join(".")} on the PATH`;
    return { ...described(resolve(torch), build), python: { command: executable, path: null }, source };
  }
  line.note(
    isSupported(build)
      ? `torch of ${executable} has no C++ headers or libraries in ${torch}; taking ${defaultTorch}`
      : `torch ${build} of ${executable} is not ${range}; taking ${defaultTorch} (or: ${executable} -m pip install torch==${defaultTorch})`,
  );
  return undefined;
}

/** The torch of the last set-up, which may be of a virtual environment that is not active now. */
function fromLastTime(): Found | undefined {
  const record = readLibtorch();
  if (!record || !isSupported(record.build) || !isComplete(record.root)) return undefined;
  if (libtorchBuild(record.root) !== record.build) return undefined;
  const python = record.python !== null && existsSync(record.python.command) ? record.python : null;
  return { ...record, python, source: `of the last set-up, in ${record.root}` };
}

async function fromPip(python: Python | undefined, { line, verbose }: StepContext): Promise<Found> {
  const before = readInstalled();
  if (before) return { ...before, source: `in ${relative(root, installedFolder)}` };
  if (python === undefined || !isNewEnough(python)) throw new Failure(await libtorch.missingTools());
  // Removes folders that killed set-ups left. No other set-up runs, because this one has the lock.
  for (const name of readdirSync(state)) {
    if (name.startsWith("torch-")) rmSync(join(state, name), { recursive: true });
  }
  const unfinished = join(state, `torch-${process.pid}`);
  const index = await cpuIndex();
  const size = index === undefined ? "up to 3 GB from its default index" : "200 MB, for CPUs";
  const activity = `installing torch ${defaultTorch} with pip (${size})`;
  line.update(activity);
  // Compiles no Python modules, which would double the time. Python compiles imported modules later.
  const options = [
    "--no-cache-dir",
    "--no-compile",
    "--no-input",
    "--disable-pip-version-check",
    "--no-warn-script-location",
    ...(index === undefined ? [] : ["--index-url", index]),
  ];
  const target = ["--target", unfinished, `torch==${defaultTorch}`];
  // pip downloads into TMPDIR.
  const downloads = `${unfinished}-downloads`;
  mkdirSync(downloads);
  const timer = setInterval(() => line.progress(`${activity}: ${downloadedBytes(downloads)}`), 1000);
  const env = { PIP_USER: "0", TMPDIR: downloads };
  try {
    await run([python.executable, "-m", "pip", "install", ...options, ...target], { verbose, env });
  } finally {
    clearInterval(timer);
    rmSync(downloads, { recursive: true, force: true });
  }
  rmSync(installedFolder, { recursive: true, force: true });
  renameSync(unfinished, installedFolder);
  writeFileSync(join(installedFolder, "python"), python.executable);
  const after = readInstalled();
  if (!after) throw new Failure([`pip installed a torch without ${library} or headers into ${installedFolder}`]);
  return { ...after, source: `installed into ${relative(root, installedFolder)}` };
}

/** The size of the files that pip has downloaded, as text. */
function downloadedBytes(folder: string): string {
  let bytes = 0;
  for (const name of readdirSync(folder).filter((each) => each.startsWith("pip-unpack-")))
    for (const file of readdirSync(join(folder, name)))
      bytes += statSync(join(folder, name, file), { throwIfNoEntry: false })?.size ?? 0;
  return `${Math.round(bytes / 1e6)} MB`;
}

/** PyTorch's index of packages for CPUs; undefined if it cannot be reached. The default index has packages for CUDA. */
export async function cpuIndex(): Promise<string | undefined> {
  const index = process.env.SCONCE_TORCH_INDEX ?? "https://download.pytorch.org/whl/cpu";
  const answer = await fetch(`${index}/torch/`, { method: "HEAD", signal: AbortSignal.timeout(INDEX_MS) }).catch(
    () => undefined,
  );
  return answer?.ok ? index : undefined;
}

/** The torch that pip installed in this checkout, if it is complete and its Python exists. */
function readInstalled(): Libtorch | undefined {
  if (!existsSync(installedFolder)) return undefined;
  // Takes the real path, because several checkouts may share .sconce by a symbolic link.
  const packages = realpathSync(installedFolder);
  const folder = join(packages, "torch");
  const build = libtorchBuild(folder);
  const command = readText(join(packages, "python"));
  if (!build || libtorchRelease(build) !== defaultTorch || !command || !existsSync(command) || !isComplete(folder))
    return undefined;
  return { ...described(folder, build), python: { command, path: packages } };
}

function described(folder: string, build: string) {
  return { root: folder, version: libtorchRelease(build), build };
}

function hasSupportedTorch({ torch }: Python): boolean {
  return torch !== null && isSupported(libtorchBuild(torch) ?? "") && isComplete(torch);
}

function isComplete(folder: string): boolean {
  return existsSync(join(folder, "lib", library)) && existsSync(join(folder, "include", "torch", "script.h"));
}

function isSupported(build: string): boolean {
  return torchMinors.includes(minorOf(build));
}

function isNewEnough({ version: [major, minor] }: Python): boolean {
  return major > oldestPython[0] || (major === oldestPython[0] && minor >= oldestPython[1]);
}
