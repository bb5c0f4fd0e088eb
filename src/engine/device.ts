/** Which devices a model runs on. */
import { SconceError } from "../errors.ts";
import { devicesIn } from "../model/device.ts";
import { cudaDeviceCount } from "../native/binding.ts";

/**
 * `auto` is the first GPU when there is one, else the CPU; `cuda` is the first GPU, `cuda:all` each of them.
 * @returns `cpu`, or one or more `cuda:N`
 * @throws SconceError `device_unavailable`, saying which there are, when one is not there
 */
export function resolveDevices(asked: string, countGpus: () => number = cudaDeviceCount): string[] {
  if (asked === "cpu") return ["cpu"];
  const gpus = Array.from({ length: countGpus() }, (_, index) => `cuda:${index}`);
  if (asked === "auto") return [gpus[0] ?? "cpu"];
  const wanted = asked === "cuda:all" && gpus.length > 0 ? gpus : devicesIn(asked);
  const missing = wanted.filter((device) => !gpus.includes(device));
  if (missing.length === 0) return wanted;
  const there = gpus.length === 0 ? "there is no usable GPU here" : `the GPUs here are ${gpus.join(", ")}`;
  throw new SconceError("device_unavailable", `no device ${missing.join(", ")}: ${there}; use --device cpu or auto`);
}
