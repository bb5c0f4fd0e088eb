/** Finds and loads a libtorch that is not part of the executable, such as that of an image with PyTorch for GPUs. */
import { dlopen, FFIType } from "bun:ffi";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../errors.ts";
import { libtorchBuild, libtorchRelease } from "./libtorch-build.ts";

const library = "libtorch_cpu.so";
const RTLD_NOW = 2;
const RTLD_GLOBAL = 0x100;

/**
 * Loads the libtorch of a folder, of `$LIBTORCH`, or else of the Python on the PATH, so that the addon finds it loaded.
 * @param asked a folder with `lib/`
 * @param wanted the build that the addon was compiled against, e.g. `2.13.0+cpu`; another build of the same release will do
 * @throws SconceError `native_unavailable`
 */
export function loadExternalLibtorch(asked: string | undefined, wanted: string): void {
  const folder = findLibtorch(asked);
  const found = libtorchBuild(folder);
  if (found !== undefined && libtorchRelease(found) !== libtorchRelease(wanted)) {
    throw unavailable(
      `${folder} is libtorch ${found}, and this executable was compiled for ${libtorchRelease(wanted)}`,
    );
  }
  loadLibtorch(folder);
}

/**
 * @returns a folder with `lib/`
 * @throws SconceError `native_unavailable`
 */
export function findLibtorch(asked?: string): string {
  const named = asked ?? process.env.LIBTORCH;
  if (named) {
    if (existsSync(join(named, "lib", library))) return resolve(named);
    throw unavailable(`${named} has no lib/${library}`);
  }
  const ofPython = folderOfPython();
  if (ofPython !== undefined) return ofPython;
  throw unavailable("there is no libtorch: none is named, and the Python on the PATH has none");
}

/** Where Python would import torch from, without importing it, which takes seconds. */
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

/** By its path, so that it finds its own libraries where it lies; the addon then finds it by its name. */
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
  return new SconceError(
    "native_unavailable",
    `${why}; name the folder of a libtorch with LIBTORCH, such as that of Python's torch`,
  );
}
