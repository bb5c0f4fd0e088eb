/** Which device a model runs on. */
import { SconceError } from "../errors.ts";
import { cudaDeviceCount } from "../native/binding.ts";

/**
 * `auto` is the first GPU when there is one, else the CPU; `cuda` is the first GPU.
 * @returns `cpu` or `cuda:N`
 * @throws SconceError `device_unavailable` when it is not there
 */
export function resolveDevice(asked: string): string {
  if (asked === "cpu") return "cpu";
  const count = cudaDeviceCount();
  if (asked === "auto") return count > 0 ? "cuda:0" : "cpu";
  const index = asked === "cuda" ? 0 : Number(asked.slice("cuda:".length));
  if (index < count) return `cuda:${index}`;
  const there = count === 0 ? "there is no usable GPU here" : `there are ${count}, cuda:0 to cuda:${count - 1}`;
  throw new SconceError("device_unavailable", `no device ${asked}: ${there}; use --device cpu or auto`);
}
