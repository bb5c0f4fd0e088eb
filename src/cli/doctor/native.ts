/** Checks of libtorch, the addon and GPUs for `sconce doctor`. Loads both libraries. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { messageOf, SconceError } from "../../base/errors.ts";
import { systemText } from "../../base/system-file.ts";
import { cudaDeviceCount, torchVersion } from "../../engine/native/binding.ts";
import { libtorchBuild } from "../../machine/libtorch/libtorch-build.ts";
import { type Check, fault, ok, warning } from "./check.ts";

/**
 * Loads libtorch and the addon. Runs as the last check, because a library for another processor may crash the process.
 */
export async function native(prepare: () => Promise<void>): Promise<Check[]> {
  const there = await gpus();
  try {
    await prepare();
    const version = torchVersion();
    const libtorch = loaded("libtorch_cpu.so");
    const folder = libtorch && dirname(dirname(libtorch));
    const isCuda = libtorch !== undefined && existsSync(join(dirname(libtorch), "libtorch_cuda.so"));
    const kind = isCuda ? "for GPUs" : "for the CPU";
    return [
      ok("libtorch", `${(folder && libtorchBuild(folder)) ?? version}, ${kind}${folder ? `, in ${folder}` : ""}`),
      ok("addon", `made for torch ${version}, in ${loaded(".node") ?? "this program"}`),
      gpu(there, isCuda),
    ];
  } catch (error) {
    const found = error instanceof SconceError ? error.problem : messageOf(error);
    const fix = error instanceof SconceError ? error.fix : undefined;
    return [fault("libtorch", found, fix ?? "name a libtorch with LIBTORCH"), gpu(there, true)];
  }
}

function gpu(there: readonly string[], isCuda: boolean): Check {
  if (there.length === 0) return ok("gpu", "none");
  const found = there.join("; ");
  if (!isCuda) {
    const fix = "install a torch for CUDA with pip, or name its folder with LIBTORCH";
    return warning("gpu", `${found}: not used, as libtorch is for the CPU`, fix);
  }
  const usable = countUsable();
  return usable === there.length
    ? ok("gpu", found)
    : warning("gpu", `${found}: libtorch can use ${usable} of them`, "update the driver, or see CUDA_VISIBLE_DEVICES");
}

function countUsable(): number {
  try {
    return cudaDeviceCount();
  } catch {
    return 0;
  }
}

/** Name, memory and driver of each GPU, from nvidia-smi; empty without it. */
async function gpus(): Promise<string[]> {
  const tool = Bun.which("nvidia-smi");
  if (tool === null) return [];
  const query = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"];
  const child = Bun.spawn([tool, ...query], { stdin: "ignore", stdout: "pipe", stderr: "ignore", timeout: 10_000 });
  const [text, code] = await Promise.all([child.stdout.text(), child.exited]);
  if (code !== 0) return [];
  return text
    .trim()
    .split("\n")
    .map((line) => line.split(", "))
    .map(([name, memory, driver]) => `${name}, ${memory}, driver ${driver}`);
}

/** Path of a loaded library, found by the end of its path. */
function loaded(end: string): string | undefined {
  const line = systemText("/proc/self/maps")
    .split("\n")
    .find((line) => line.endsWith(end));
  return line?.slice(line.indexOf("/"));
}
