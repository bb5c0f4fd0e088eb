/** Gets headers and libraries of a release of torch from its wheel, to compile and test an addon on a CPU. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Architecture, architectures } from "../../src/base/platform-package.ts";
import { madeOnce } from "../../src/machine/files/made-once.ts";
import { run } from "../setup/command.ts";
import { cpuIndex } from "../setup/libtorch.ts";
import { state } from "../setup/step.ts";

const wheels = join(state, "pack", "wheels");
/** Wheels of the CUDA libraries that libtorch_cpu.so of a GPU build needs. */
const cudaWheels = ["nvidia-cuda-cupti==13.*", "nvidia-cuda-runtime==13.*"];
const wanted = ["torch/include/*", "torch/version.py", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"];
const further = ["torch/lib/libtorch.so", "torch/lib/libgomp*", "torch/lib/libgfortran*", "torch-*/licenses/*"];
/** Libraries of the builds for arm64: OpenBLAS of builds for CPUs, NVPL of builds for CUDA, and Arm's Compute Library. */
const ofArm64 = ["torch/lib/libopenblas*", "torch/lib/libnvpl_*", "torch/lib/libarm_compute*"];

/**
 * Downloads and unpacks the wheel if needed.
 * @returns the folder with lib/ and include/, which has the wheel's licenses beside it
 */
export async function torchFor(release: string, arch: Architecture): Promise<string> {
  const folder = unpacked(release, arch);
  await madeOnce(folder, async (temporary) => {
    await unpack(await download(`torch==${release}`, arch), temporary, [...wanted, ...further, ...ofArm64]);
    for (const name of cudaWheels) await unpack(await download(name, arch), temporary, ["nvidia/*/lib/*.so*"]);
  });
  return join(folder, "torch");
}

/** Removes the unpacked libtorch of a release and its wheel, which take more than a gigabyte. */
export function removeTorch(release: string, arch: Architecture): void {
  for (const folder of [wheelFolder(`torch==${release}`, arch), unpacked(release, arch)])
    rmSync(folder, { recursive: true, force: true });
}

/** Removes the downloaded wheels, among them the CUDA libraries, which several releases share. */
export function removeWheels(): void {
  rmSync(wheels, { recursive: true, force: true });
}

const suffix = (arch: Architecture) => (arch === process.arch ? "" : `-${arch}`);
const unpacked = (release: string, arch: Architecture) => join(state, "pack", `torch-${release}${suffix(arch)}`);
const wheelFolder = (requirement: string, arch: Architecture) =>
  join(wheels, requirement.replaceAll(/[^\w.-]+/g, "-") + suffix(arch));

/**
 * Downloads a wheel with pip from its configured index, ignoring pip's constraints on versions. Wheels for another
 * architecture come from PyTorch's index of builds for CPUs, if this index can be reached.
 * @returns the path
 */
async function download(requirement: string, arch: Architecture): Promise<string> {
  const folder = wheelFolder(requirement, arch);
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
    const index = arch === process.arch ? undefined : await cpuIndex();
    const from = index === undefined ? [] : ["--extra-index-url", index];
    await run([...pip, ...(arch === process.arch ? [] : platformsOf(arch)), ...from, requirement], {
      verbose: false,
      env: { PIP_CONSTRAINT: "/dev/null" },
    });
  }
  return join(folder, found() || "");
}

/** Options of pip for the wheels of another architecture: the oldest systems that wheels of torch and CUDA name. */
function platformsOf(arch: Architecture): string[] {
  return ["28", "25", "17"].flatMap((glibc) => ["--platform", `manylinux_2_${glibc}_${architectures[arch]}`]);
}

/** Unpacks a wheel with Python, which is there because pip needs it. */
async function unpack(wheel: string, folder: string, patterns: readonly string[]): Promise<void> {
  const script = `import fnmatch, sys, zipfile
wheel, folder, *patterns = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    z.extractall(folder, [n for n in z.namelist() if any(fnmatch.fnmatch(n, p) for p in patterns)])`;
  await run(["python3", "-c", script, wheel, folder, ...patterns], { verbose: false });
}
