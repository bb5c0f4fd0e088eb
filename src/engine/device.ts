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
  const gpus = gpusOf(countGpus());
  if (asked === "auto") {
    const [gpu] = gpus;
    return [gpu === undefined || (await anyForCpu(weights)) ? "cpu" : gpu];
  }
  const missing = missingOf(asked, gpus);
  if (missing.length === 0) return asked === "cuda:all" ? gpus : devicesIn(asked);
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

export function areThere(asked: string): boolean {
  return asked === "cpu" || asked === "auto" || missingOf(asked, gpusOf(cudaDeviceCount())).length === 0;
}

function gpusOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `cuda:${index}`);
}

function missingOf(asked: string, gpus: readonly string[]): string[] {
  if (asked === "cuda:all" && gpus.length > 0) return [];
  return devicesIn(asked).filter((device) => !gpus.includes(device));
}
