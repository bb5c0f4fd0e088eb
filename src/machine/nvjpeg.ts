/** Finds NVIDIA's library nvJPEG, which decodes JPEGs on a GPU. */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { findAddon } from "./libtorch/find-addon.ts";

/** File names of the library, for CUDA 13 and 12. */
const names = ["libnvjpeg.so.13", "libnvjpeg.so.12"];
/** Folders of the wheel `nvidia-nvjpeg` beside torch's wheel: for CUDA 13, and for CUDA 12. */
const wheels = ["nvidia/cu13/lib", "nvidia/nvjpeg/lib"];

/** Index of the model's first GPU, and files where nvJPEG may be. @returns undefined for a model on the CPU */
export function nvjpegFor(devices: readonly string[]): { device: number; libraries: string[] } | undefined {
  const [, index] = /^cuda:(\d+)$/.exec(devices[0] ?? "") ?? [];
  return index === undefined ? undefined : { device: Number(index), libraries: nvjpegLibraries() };
}

/**
 * Files to try: by name in the dynamic linker's folders, in a wheel beside the server's torch, and in a CUDA toolkit.
 */
function nvjpegLibraries(): string[] {
  const folders = [...wheelFolders(), "/usr/local/cuda/lib64"];
  return [...names, ...folders.flatMap((folder) => names.map((name) => join(folder, name)))];
}

function wheelFolders(): string[] {
  try {
    const torch = realpathSync(join(findAddon().libtorch, "lib"));
    return wheels.map((wheel) => join(torch, "../..", wheel));
  } catch {
    // No libtorch folder was found, for example in an executable that contains libtorch.
    return [];
  }
}
