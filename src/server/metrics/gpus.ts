/** Metrics of the machine's GPUs, read with NVIDIA's management library (NVML). */
import { type GpuUsage, Nvml } from "../../machine/nvml.ts";
import type { Family } from "./counts.ts";

let nvml: Nvml | undefined;
let isOpen = false;

/**
 * The use of all GPUs of this machine. Opens NVIDIA's library at the first call.
 * @param devices devices of the model
 * @returns an empty list for a model on the CPU, or without the library
 */
export function gpusFor(devices: readonly string[]): readonly GpuUsage[] {
  if (!devices.some((device) => device.startsWith("cuda"))) return [];
  if (!isOpen) nvml = Nvml.open();
  isOpen = true;
  return nvml?.gpus() ?? [];
}

export function gpuFamilies(gpus: readonly GpuUsage[]): Family[] {
  if (gpus.length === 0) return [];
  const family = (name: string, help: string, key: Exclude<keyof GpuUsage, "index" | "uuid">): Family => ({
    name,
    help,
    type: "gauge",
    aggregator: "first",
    values: gpus.flatMap(({ index, uuid, [key]: value }) =>
      value === undefined ? [] : [{ labels: { gpu: String(index), uuid }, value }],
    ),
  });
  return [
    family("sconce_gpu_utilization_ratio", "Part of the time in which a kernel ran on the GPU, 0 to 1.", "utilization"),
    family("sconce_gpu_memory_used_bytes", "Used memory of the GPU, of all programs.", "memoryUsedBytes"),
    family("sconce_gpu_memory_bytes", "Memory of the GPU.", "memoryBytes"),
    family("sconce_gpu_power_watts", "Power of the GPU.", "powerWatts"),
    family("sconce_gpu_temperature_celsius", "Temperature of the GPU.", "celsius"),
  ];
}
