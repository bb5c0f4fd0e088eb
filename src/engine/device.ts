/** Chooses the devices that a model runs on. */

import { devicesIn } from "../author/device.ts";
import { SconceError } from "../base/errors.ts";
import { openNativeFile } from "../base/native-file.ts";
import { cudaDeviceCount } from "./native/binding.ts";
import { WeightsFile } from "./program/weights-file.ts";

/** The requested device: the operator's choice, else the author's, else `auto`. */
export interface AskedDevice {
  readonly operator?: string | undefined;
  readonly author?: string | undefined;
  readonly weights?: readonly string[];
}

/**
 * `cuda` is the first GPU, `cuda:all` is every GPU. `auto` is the first GPU if there is one and no weights are compiled for the CPU, else the CPU.
 * @returns `cpu`, or one or more `cuda:N`
 * @throws SconceError `device_unavailable` with the available devices
 */
export async function resolveDevices(
  { operator, author, weights = [] }: AskedDevice,
  countGpus = cudaDeviceCount,
): Promise<string[]> {
  const asked = operator ?? author ?? "auto";
  if (asked === "cpu") return ["cpu"];
  const gpus = Array.from({ length: countGpus() }, (_, index) => `cuda:${index}`);
  if (asked === "auto") {
    const [gpu] = gpus;
    return [gpu === undefined || (await anyForCpu(weights)) ? "cpu" : gpu];
  }
  if (asked === "cuda:all" && gpus.length > 0) return gpus;
  const wanted = devicesIn(asked);
  const missing = wanted.filter((device) => !gpus.includes(device));
  if (missing.length === 0) return wanted;
  const whose = operator === undefined ? ", which the model declares" : "";
  const there = gpus.length === 0 ? "there is no usable GPU here" : `the GPUs here are ${gpus.join(", ")}`;
  throw new SconceError(
    "device_unavailable",
    `no device ${missing.join(", ")}${whose}: ${there}; use --device cpu or auto`,
  );
}

async function anyForCpu(weights: readonly string[]): Promise<boolean> {
  // One file at a time, because weights inside an executable are copied to disk to be read.
  for (const path of weights) {
    await using file = await openNativeFile(path);
    if (new WeightsFile(file.path).device === "cpu") return true;
  }
  return false;
}
