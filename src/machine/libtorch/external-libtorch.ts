/** Finds and loads libtorch: the folder in $LIBTORCH, else Python's torch, else the npm package. An executable contains its own libtorch. */
import { dlopen, FFIType } from "bun:ffi";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { libtorchPackage, packageFolder } from "../../base/platform-package.ts";
import { isExecutable } from "../processes/program.ts";
import { libtorchBuild, libtorchRelease, minorOf, torchMinors } from "./libtorch-build.ts";

const library = "libtorch_cpu.so";

/**
 * Loads libtorch before the addon, so that the addon links to it.
 * @param wanted the build that the addon was compiled against, e.g. `2.13.0+cpu`; other builds of the same release work
 * too
 * @throws SconceError `native_unavailable`
 */
export function loadExternalLibtorch(wanted: string): void {
  const folder = findLibtorch((build) => libtorchRelease(build) === libtorchRelease(wanted));
  const found = libtorchBuild(folder);
  if (found !== undefined && libtorchRelease(found) !== libtorchRelease(wanted)) {
    throw unavailable(
      `${folder} is libtorch ${found}, and this executable was compiled for ${libtorchRelease(wanted)}`,
    );
  }
  loadLibtorch(folder);
}

/**
 * Finds the folder of libtorch: `$LIBTORCH`. Without the variable, the torch of the Python on the PATH,
 * then the npm package. The first folder with a build that fits wins. If none fits, returns the first, so that a
 * message can name it.
 * @returns a folder with `lib/`
 * @throws SconceError `native_unavailable`
 */
export function findLibtorch(fits = (build: string) => torchMinors.some((minor) => minor === minorOf(build))): string {
  const named = process.env.LIBTORCH;
  if (named) {
    if (existsSync(join(named, "lib", library))) return resolve(named);
    throw unavailable(`${named} has no lib/${library}`);
  }
  let first: string | undefined;
  for (const find of [folderOfPython, folderOfPackage]) {
    const folder = find();
    if (folder !== undefined && fits(libtorchBuild(folder) ?? "")) return folder;
    first ??= folder;
  }
  if (first !== undefined) return first;
  throw unavailable("there is no libtorch: LIBTORCH is not set, and the Python on the PATH has no torch");
}

/** Looks up the folder of Python's torch. `find_spec` does not import torch, which would take seconds. */
function folderOfPython(): string | undefined {
  const script =
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')";
  for (const name of ["python3", "python"]) {
    const python = Bun.which(name);
    if (python === null) continue;
    const { success, stdout } = Bun.spawnSync([python, "-c", script], { stderr: "ignore" });
    const folder = stdout.toString().trim();
    if (success && existsSync(join(folder, "lib", library))) return folder;
  }
  return undefined;
}

/** The folder of the npm package with libtorch for CPUs; undefined without it. */
export function folderOfPackage(): string | undefined {
  return isExecutable ? undefined : packageFolder(libtorchPackage());
}

const RTLD_NOW = 2;
const RTLD_GLOBAL = 0x100;

/**
 * Loads libtorch by its path, so that it finds the libraries beside it, and globally, so that the addon finds it by
 * name.
 */
export function loadLibtorch(folder: string): void {
  const path = join(folder, "lib", library);
  const system = dlopen("libc.so.6", {
    dlopen: { args: [FFIType.cstring, FFIType.i32], returns: FFIType.ptr },
    dlerror: { args: [], returns: FFIType.cstring },
  });
  try {
    const handle = system.symbols.dlopen(Buffer.from(`${path}\0`), RTLD_NOW | RTLD_GLOBAL);
    if (handle === null) throw unavailable(`${path} cannot be loaded (${system.symbols.dlerror()})`);
  } finally {
    system.close();
  }
}

function unavailable(why: string): SconceError {
  const fix = `${isExecutable ? "" : `install ${libtorchPackage()}, or `}name a libtorch with LIBTORCH, such as the folder torch of Python's packages`;
  return new SconceError("native_unavailable", why, { fix });
}
