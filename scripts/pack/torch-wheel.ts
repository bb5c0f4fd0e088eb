/** Headers and libraries from the wheel of a release of torch, to compile and test an addon on a CPU. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { madeOnce } from "../../src/machine/files/made-once.ts";
import { run } from "../setup/command.ts";
import { state } from "../setup/step.ts";

const wheels = join(state, "pack", "wheels");
/** CUDA libraries that libtorch_cpu.so of a GPU build needs. */
const cudaWheels = ["nvidia-cuda-cupti==13.*", "nvidia-cuda-runtime==13.*"];
const wanted = ["torch/include/*", "torch/version.py", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"];
const further = ["torch/lib/libtorch.so", "torch/lib/libgomp*", "torch/lib/libgfortran*"];

/** Downloads the wheel if it is missing. @returns the folder with lib/ and include/ */
export async function torchFor(release: string): Promise<string> {
  const folder = unpacked(release);
  await madeOnce(folder, async (temporary) => {
    await unpack(await download(`torch==${release}`), temporary, [...wanted, ...further]);
    for (const name of cudaWheels) await unpack(await download(name), temporary, ["nvidia/*/lib/*.so*"]);
  });
  return join(folder, "torch");
}

/** Removes the libtorch of a release and its wheel: more than a gigabyte. */
export function removeTorch(release: string): void {
  for (const folder of [wheelFolder(`torch==${release}`), unpacked(release)])
    rmSync(folder, { recursive: true, force: true });
}

/** Removes the wheels that several releases need. */
export function removeWheels(): void {
  rmSync(wheels, { recursive: true, force: true });
}

const unpacked = (release: string) => join(state, "pack", `torch-${release}`);
const wheelFolder = (requirement: string) => join(wheels, requirement.replaceAll(/[^\w.-]+/g, "-"));

/** Downloads with pip from its configured index, without its constraints on versions. */
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

/** Unzips with Python, which pip needs anyway. */
async function unpack(wheel: string, folder: string, patterns: readonly string[]): Promise<void> {
  const script = `import fnmatch, sys, zipfile
wheel, folder, *patterns = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    z.extractall(folder, [n for n in z.namelist() if any(fnmatch.fnmatch(n, p) for p in patterns)])`;
  await run(["python3", "-c", script, wheel, folder, ...patterns], { verbose: false });
}
