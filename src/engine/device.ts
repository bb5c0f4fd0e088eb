/** Which device a model runs on. */
import { SconceError } from "../errors.ts";
import { cudaDeviceCount } from "../native/binding.ts";

/** How the operator, or else the author, named a device; `auto` is the first GPU when there is one, else the CPU; `cuda` the first GPU. */
export interface AskedDevice {
  readonly operator: string | undefined;
  readonly author: string | undefined;
}

/**
 * @param count of the GPUs that can be used
 * @returns `cpu` or `cuda:N`
 * @throws SconceError `device_unavailable` when it is not there
 */
export function resolveDevice({ operator, author }: AskedDevice, count = cudaDeviceCount()): string {
  const asked = operator ?? author ?? "auto";
  if (isThere(asked, count)) return asked === "cpu" || count === 0 ? "cpu" : `cuda:${indexOf(asked)}`;
  const whose = operator === undefined ? ", which the model declares" : "";
  throw new SconceError(
    "device_unavailable",
    `no device ${asked}${whose}: ${listed(count)}; use ${count === 0 ? "" : "one of these, "}--device cpu or auto`,
  );
}

/** Whether a device can be used on this machine. */
export function isThere(device: string, count = cudaDeviceCount()): boolean {
  return device === "cpu" || device === "auto" || indexOf(device) < count;
}

function indexOf(device: string): number {
  return device === "cuda" || device === "auto" ? 0 : Number(device.slice("cuda:".length));
}

function listed(count: number): string {
  if (count === 0) return "there is no usable GPU here";
  return count === 1 ? "there is cuda:0 alone" : `there are cuda:0 to cuda:${count - 1}`;
}
