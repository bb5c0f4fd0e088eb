/**
 * Metrics of GPUs, as NVIDIA's library reports them. The tests run without a GPU: a small C library takes the place
 * of the driver's.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { $ } from "bun";
import { Nvml } from "../src/machine/nvml.ts";
import { gpuFamilies, gpusFor } from "../src/server/metrics/gpus.ts";
import { prometheusText } from "../src/server/metrics/prometheus-text.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let dir: TempDir;
let library: string;

beforeAll(async () => {
  dir = await tempDir();
  library = dir.join("libnvidia-ml.so.1");
  await $`cc -shared -fPIC -o ${library} ${join(import.meta.dir, "helpers/nvml-stub.c")}`;
});
afterAll(() => dir[Symbol.asyncDispose]());

describe("the metrics", () => {
  test("have each GPU by index and UUID, without figures that it does not report", () => {
    const text = prometheusText(gpuFamilies(Nvml.open(library)?.gpus() ?? []));
    const [first, second] = ['{gpu="0",uuid="GPU-7fff12340000"}', '{gpu="1",uuid="GPU-7fff12340001"}'];
    expect(text.split("\n").filter((line) => line.startsWith("sconce_"))).toEqual([
      `sconce_gpu_utilization_ratio${first} 0.73`,
      `sconce_gpu_memory_used_bytes${first} 5899345920`,
      `sconce_gpu_memory_used_bytes${second} 5899345920`,
      `sconce_gpu_memory_bytes${first} 85899345920`,
      `sconce_gpu_memory_bytes${second} 85899345920`,
      `sconce_gpu_power_watts${first} 312.5`,
      `sconce_gpu_temperature_celsius${first} 54`,
      `sconce_gpu_temperature_celsius${second} 55`,
    ]);
  });

  test("have no GPUs if the library is missing or is another, and for a model on the CPU", async () => {
    expect(Nvml.open(dir.join("missing.so"))).toBeUndefined();
    const other = dir.join("other.so");
    await Bun.write(dir.join("other.c"), "int other(void) { return 0; }");
    await $`cc -shared -fPIC -o ${other} ${dir.join("other.c")}`;
    expect(Nvml.open(other)).toBeUndefined();
    expect(gpusFor(["cpu"])).toEqual([]);
    expect(gpuFamilies([])).toEqual([]);
  });
});
