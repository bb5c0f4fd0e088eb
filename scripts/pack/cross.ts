/** Compiles for another processor architecture with Debian's cross compiler. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Architecture, architectures, bunPackage, pixelsName } from "../../src/base/platform-package.ts";
import { madeOnce } from "../../src/machine/files/made-once.ts";
import { defaultTorch, libtorchBuild, minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import {
  hasGpuLibraries,
  type LibraryFile,
  libraryFiles,
  systemLibraries,
} from "../../src/package/executable/library-files.ts";
import { ownTarget, type Target } from "../../src/package/executable/target.ts";
import { compiledFolder } from "../setup/addon.ts";
import { ask, Failure, missingTool, run } from "../setup/command.ts";
import { state } from "../setup/step.ts";
import { torchFor } from "./torch-wheel.ts";

/** Prefix of the names of a compiler's programs; empty for this machine's. */
export function toolPrefix(arch: Architecture): string {
  return arch === process.arch ? "" : `${architectures[arch]}-linux-gnu-`;
}

/** CMake's variables for an architecture. @throws Failure if there is no cross compiler */
export function crossCompiler(arch: Architecture): Record<string, string> {
  if (arch === process.arch) return {};
  const compiler = `${toolPrefix(arch)}g++`;
  const named = `g++-${architectures[arch].replace("_", "-")}-linux-gnu`;
  const dnf = `gcc-c++-${architectures[arch]}-linux-gnu`;
  if (Bun.which(compiler) === null)
    throw new Failure([missingTool(`the cross compiler ${compiler}`, { apt: named, dnf })]);
  return { CMAKE_SYSTEM_NAME: "Linux", CMAKE_SYSTEM_PROCESSOR: architectures[arch], CMAKE_CXX_COMPILER: compiler };
}

/** Bun, the addons for the default torch, and its libtorch for CPUs, for an architecture. */
export async function targetFor(arch: Architecture): Promise<Target> {
  if (arch === process.arch) return ownTarget(await libraryFiles());
  const torch = await torchFor(defaultTorch, arch);
  const addons = join(compiledFolder(arch), minorOf(defaultTorch));
  const files = {
    torch: libtorchBuild(torch) ?? defaultTorch,
    addon: { name: addonName, path: join(addons, addonName) },
    libtorch: await librariesOf(torch),
  };
  const target = { arch, bun: await bunFor(arch), pixels: join(addons, pixelsName), files };
  if (!isForCpus(target))
    console.log(`libtorch ${files.torch} is for CUDA: files that contain it are for tests, not for publication`);
  return target;
}

/** Whether libtorch is a build for CPUs. Other builds need NVIDIA's libraries, also on a CPU. */
export function isForCpus({ files }: Target): boolean {
  return !hasGpuLibraries(files) && !files.libtorch.some(({ name }) => name.startsWith("libcudart"));
}

/** libtorch_cpu.so and the libraries that it needs, except the system's. @throws Failure if one is missing */
async function librariesOf(torch: string): Promise<LibraryFile[]> {
  const folders = [join(torch, "lib"), join(dirname(torch), "nvidia/cu13/lib")];
  const found = new Map<string, string>();
  const waiting = ["libtorch_cpu.so"];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name) || systemLibraries.test(name)) continue;
    const path = folders.map((folder) => join(folder, name)).find((each) => existsSync(each));
    if (path === undefined) throw new Failure([`libtorch in ${torch} needs ${name}, which is not there`]);
    found.set(name, path);
    const entries = (await ask(["readelf", "--dynamic", "--wide", path])) ?? "";
    for (const [, needed = ""] of entries.matchAll(/\(NEEDED\).*\[(.+)\]/g)) waiting.push(needed);
  }
  return [...found].map(([name, path]) => ({ name, path })).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Bun of this version for another architecture, from npm. */
async function bunFor(arch: Architecture): Promise<string> {
  const name = bunPackage(arch);
  const folder = join(state, "pack", `bun-${Bun.version}-${arch}`);
  await madeOnce(folder, async (temporary) => {
    await Bun.write(join(temporary, "package.json"), "{}");
    const options = ["--cwd", temporary, "--os", "linux", "--cpu", arch, "--ignore-scripts"];
    await run([process.execPath, "add", ...options, `${name}@${Bun.version}`], { verbose: false });
  });
  return join(folder, "node_modules", name, "bin/bun");
}
