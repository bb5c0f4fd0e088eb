/** Gets headers and libraries of a release of torch from its wheel, to compile and test an addon on a CPU. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { madeOnce } from "../../src/machine/files/made-once.ts";
import { run } from "../setup/command.ts";
import { state } from "../setup/step.ts";

const wheels = join(state, "pack", "wheels");
/** Wheels of the CUDA libraries that libtorch_cpu.so of a GPU build needs. */
const cudaWheels = ["nvidia-cuda-cupti==13.*", "nvidia-cuda-runtime==13.*"];
const wanted = ["torch/include/*", "torch/version.py", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"];
const further = ["torch/lib/libtorch.so", "torch/lib/libgomp*", "torch/lib/libgfortran*"];

/** Downloads and unpacks the wheel if needed. @returns the folder with lib/ and include/ */
export async function torchFor(release: string): Promise<string> {
  const folder = unpacked(release);
  await madeOnce(folder, async (temporary) => {
    await unpack(await download(`torch==${release}`), temporary, [...wanted, ...further]);
    for (const name of cudaWheels) await unpack(await download(name), temporary, ["nvidia/*/lib/*.so*"]);
  });
  return join(folder, "torch");
}

/** Removes the unpacked libtorch of a release and its wheel, which take more than a gigabyte. */
export function removeTorch(release: string): void {
  for (const folder of [wheelFolder(`torch==${release}`), unpacked(release)])
    rmSync(folder, { recursive: true, force: true });
}

/** Removes the downloaded wheels, among them the CUDA libraries, which several releases share. */
export function removeWheels(): void {
  rmSync(wheels, { recursive: true, force: true });
}

const unpacked = (release: string) => join(state, "pack", `torch-${release}`);
const wheelFolder = (requirement: string) => join(wheels, requirement.replaceAll(/[^\w.-]+/g, "-"));

/** Downloads a wheel with pip from its configured index, ignoring pip's constraints on versions. @returns the path */
async function download(requirement: string): Promise<string> {
  const folder = wheelFolder(requirement);
  const found = () => existsSync(folder) && readdirSync(folder).find((name) => name.endsWith(".whl"));
  if (!found()) {
    const pip = [
      "python3",
      "-m",
      "pip",
      "download",
      "--no-deps",
      "--no-input",
      "--only-binary=:all:",
      "--dest",
      folder,
    ];
    await run([...pip, requirement], { verbose: false, env: { PIP_CONSTRAINT: "/dev/null" } });
  }
  return join(folder, found() || "");
}

/** Unpacks a wheel with Python, which is there because pip needs it. */
async function unpack(wheel: string, folder: string, patterns: readonly string[]): Promise<void> {
  const script = `import fnmatch, sys, zipfile
wheel, folder, *patterns = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    z.extractall(folder, [n for n in z.namelist() if any(fnmatch.fnmatch(n, p) for p in patterns)])`;
  await run(["python3", "-c", script, wheel, folder, ...patterns], { verbose: false });
}
