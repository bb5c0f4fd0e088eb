/** Finds and loads a libtorch outside the executable, such as the libtorch of a PyTorch image for GPUs. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { installedLibtorchs } from "./installed-libtorch.ts";
import { libtorchBuild, libtorchRelease, minorOf, torchMinors } from "./libtorch-build.ts";
import { loadLibrary } from "./load-library.ts";

const library = "libtorch_cpu.so";

/**
 * Loads libtorch before the addon, so that the addon links to it.
 * @param asked a folder with `lib/`
 * @param wanted the build that the addon was compiled against, e.g. `2.13.0+cpu`; other builds of the same release also
 * work
 * @throws SconceError `native_unavailable`
 */
export function loadExternalLibtorch(asked: string | undefined, wanted: string): void {
  const folder = findLibtorch(asked, (build) => libtorchRelease(build) === libtorchRelease(wanted));
  const found = libtorchBuild(folder);
  if (found !== undefined && libtorchRelease(found) !== libtorchRelease(wanted)) {
    throw unavailable(
      `${folder} is libtorch ${found}, and this executable was compiled for ${libtorchRelease(wanted)}`,
    );
  }
  loadLibtorch(folder);
}

/**
 * The requested folder, else `$LIBTORCH`. Without either: the torch of the Python on the PATH, then the versions of
 * `sconce libtorch install`. The first that fits wins; if none fits, the first is returned so that a message can name
 * it.
 * @returns a folder with `lib/`
 * @throws SconceError `native_unavailable`
 */
export function findLibtorch(
  asked?: string,
  fits = (build: string) => torchMinors.some((minor) => minor === minorOf(build)),
): string {
  const named = asked ?? process.env.LIBTORCH;
  if (named) {
    if (existsSync(join(named, "lib", library))) return resolve(named);
    throw unavailable(`${named} has no lib/${library}`);
  }
  const ofPython = folderOfPython();
  const folders = [...(ofPython === undefined ? [] : [ofPython]), ...installedLibtorchs().map(({ root }) => root)];
  const found = folders.find((folder) => fits(libtorchBuild(folder) ?? "")) ?? folders[0];
  if (found !== undefined) return found;
  throw unavailable("there is no libtorch: none is named or installed, and the Python on the PATH has none");
}

/** Asks Python for the folder of torch without importing it, since the import takes seconds. */
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

/** Loads libtorch before the addon, so that the addon links to it. */
export function loadLibtorch(folder: string): void {
  const path = join(folder, "lib", library);
  const fault = loadLibrary(path);
  if (fault !== undefined) throw unavailable(`${path} cannot be loaded (${fault})`);
}

function unavailable(why: string): SconceError {
  const mend =
    "install one with `sconce libtorch install`, or name the folder of one with LIBTORCH, such as that of Python's torch";
  return new SconceError("native_unavailable", why, { mend });
}
