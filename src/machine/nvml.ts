/**
 * Reads the state of the machine's GPUs from NVIDIA's management library, which comes with the driver:
 * https://docs.nvidia.com/deploy/nvml-api/
 */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";

/** The state of a GPU. Figures that the GPU does not report are undefined. */
export interface GpuUsage {
  /** Index in the order of `nvidia-smi`. */
  readonly index: number;
  readonly uuid: string;
  /** Share of the last sample period in which a kernel ran, from 0 to 1. */
  readonly utilization: number | undefined;
  readonly memoryUsedBytes: number | undefined;
  readonly memoryBytes: number | undefined;
  readonly powerWatts: number | undefined;
  readonly celsius: number | undefined;
}

const { i32, u32, u64, ptr: pointer } = FFIType;

/**
 * The library's functions. Their names date from 2013, so every current driver has them. A nonzero result is an error.
 */
const functions = {
  nvmlInit_v2: { args: [], returns: i32 },
  nvmlDeviceGetCount_v2: { args: [pointer], returns: i32 },
  nvmlDeviceGetHandleByIndex_v2: { args: [u32, pointer], returns: i32 },
  nvmlDeviceGetUUID: { args: [u64, pointer, u32], returns: i32 },
  nvmlDeviceGetUtilizationRates: { args: [u64, pointer], returns: i32 },
  nvmlDeviceGetMemoryInfo: { args: [u64, pointer], returns: i32 },
  nvmlDeviceGetPowerUsage: { args: [u64, pointer], returns: i32 },
  nvmlDeviceGetTemperature: { args: [u64, u32, pointer], returns: i32 },
} as const;

type Library = ReturnType<typeof dlopen<typeof functions>>["symbols"];

/** Sensor number of the GPU itself, the only sensor of `nvmlDeviceGetTemperature`. */
const GPU_SENSOR = 0;
const UUID_BYTES = 96;

export class Nvml {
  readonly #library: Library;

  private constructor(library: Library) {
    this.#library = library;
  }

  /** Opens the library. @returns undefined without a driver, or with a driver that cannot be used */
  static open(path = "libnvidia-ml.so.1"): Nvml | undefined {
    try {
      const { symbols } = dlopen(path, functions);
      const result = symbols.nvmlInit_v2();
      if (result === 0) return new Nvml(symbols);
      log.debug(`The metrics have no GPUs: NVML gave error ${result}`);
    } catch (error) {
      log.debug(`The metrics have no GPUs: ${messageOf(error)}`);
    }
    return undefined;
  }

  /** The GPUs that this process may see, without GPUs that have failed. */
  gpus(): GpuUsage[] {
    const nvml = this.#library;
    const [count = 0] = words(1, (at) => nvml.nvmlDeviceGetCount_v2(at)) ?? [];
    return Array.from({ length: count }, (_, index) => this.#gpu(index)).filter((gpu) => gpu !== undefined);
  }

  #gpu(index: number): GpuUsage | undefined {
    const nvml = this.#library;
    const [device] = longs(1, (at) => nvml.nvmlDeviceGetHandleByIndex_v2(index, at)) ?? [];
    if (device === undefined) return undefined;
    const uuid = new Uint8Array(UUID_BYTES);
    if (nvml.nvmlDeviceGetUUID(device, ptr(uuid), UUID_BYTES) !== 0) return undefined;
    const [percent] = words(2, (at) => nvml.nvmlDeviceGetUtilizationRates(device, at)) ?? [];
    const [total, , used] = longs(3, (at) => nvml.nvmlDeviceGetMemoryInfo(device, at)) ?? [];
    const [milliwatts] = words(1, (at) => nvml.nvmlDeviceGetPowerUsage(device, at)) ?? [];
    const [celsius] = words(1, (at) => nvml.nvmlDeviceGetTemperature(device, GPU_SENSOR, at)) ?? [];
    return {
      index,
      uuid: Buffer.from(uuid.subarray(0, uuid.indexOf(0))).toString(),
      utilization: percent === undefined ? undefined : percent / 100,
      memoryUsedBytes: used === undefined ? undefined : Number(used),
      memoryBytes: total === undefined ? undefined : Number(total),
      powerWatts: milliwatts === undefined ? undefined : milliwatts / 1000,
      celsius,
    };
  }
}

type Pointer = ReturnType<typeof ptr>;

/** The 32-bit integers that a library function writes; undefined after an error. */
function words(count: number, write: (at: Pointer) => number): Uint32Array | undefined {
  const written = new Uint32Array(count);
  return write(ptr(written)) === 0 ? written : undefined;
}

function longs(count: number, write: (at: Pointer) => number): BigUint64Array | undefined {
  const written = new BigUint64Array(count);
  return write(ptr(written)) === 0 ? written : undefined;
}
