/** Finds and loads a libtorch that is not part of the executable, such as that of an image with PyTorch for GPUs. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../errors.ts";
import { installedLibtorchs } from "./installed-libtorch.ts";
import { libtorchBuild, libtorchRelease } from "./libtorch-build.ts";
import { loadLibrary } from "./load-library.ts";

const library = "libtorch_cpu.so";

/**
 * Loads the libtorch of a folder, of `$LIBTORCH`, of the Python on the PATH, or else one that `sconce libtorch install` put down, so that the addon finds it loaded.
 * @param asked a folder with `lib/`
 * @param wanted the build that the addon was compiled against, e.g. `2.13.0+cpu`; another build of the same release will do
 * @throws SconceError `native_unavailable`
 */
export async function loadExternalLibtorch(asked: string | undefined, wanted: string): Promise<void> {
  const folder = await find(asked, libtorchRelease(wanted));
  const found = libtorchBuild(folder);
  if (found !== undefined && libtorchRelease(found) !== libtorchRelease(wanted)) {
    throw unavailable(
      `${folder} is libtorch ${found}, and this executable was compiled for ${libtorchRelease(wanted)}`,
    );
  }
  const path = join(folder, "lib", library);
  const fault = loadLibrary(path);
  if (fault !== undefined) throw unavailable(`${path} cannot be loaded (${fault})`);
}

async function find(asked: string | undefined, release: string): Promise<string> {
  const named = asked ?? process.env.LIBTORCH;
  if (named) {
    if (existsSync(join(named, "lib", library))) return resolve(named);
    throw unavailable(`${named} has no lib/${library}`);
  }
  const ofPython = await folderOfPython();
  if (ofPython !== undefined) return ofPython;
  const installed = installedLibtorchs();
  const fitting = installed.find(({ root }) => libtorchRelease(libtorchBuild(root) ?? "") === release) ?? installed[0];
  if (fitting !== undefined) return fitting.root;
  throw unavailable(
    `this executable was compiled without libtorch, the Python on the PATH has none, and none is installed: install torch ${release} with \`sconce libtorch install ${release}\``,
  );
}

/** Where Python would import torch from, without importing it, which takes seconds. */
async function folderOfPython(): Promise<string | undefined> {
  const script =
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')";
  for (const name of ["python3", "python"]) {
    const python = Bun.which(name);
    if (python === null) continue;
    const child = Bun.spawn([python, "-c", script], { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
    const folder = (await new Response(child.stdout).text()).trim();
    if ((await child.exited) === 0 && existsSync(join(folder, "lib", library))) return folder;
  }
  return undefined;
}

function unavailable(why: string): SconceError {
  return new SconceError(
    "native_unavailable",
    `${why}; name the folder of a libtorch with --libtorch (or SCONCE_LIBTORCH, or LIBTORCH), such as that of Python's torch`,
  );
}
