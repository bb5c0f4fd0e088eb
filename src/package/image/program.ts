/**
 * Makes the server program of a container image: an executable without libtorch and model, and its libraries as
 * separate files.
 */
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { compileExecutable } from "../executable/executable.ts";
import { isForGpus, libraryFiles } from "../executable/library-files.ts";
import type { ImageProgram } from "./contents.ts";

/**
 * Writes the executable to `folder`, which must exist until the image is written.
 * @throws SconceError `usage` outside Linux or when libtorch is for GPUs, `native_unavailable` when the addon or
 * libtorch is not found
 */
export async function makeProgram(folder: string): Promise<ImageProgram> {
  const files = await libraryFiles();
  if (isForGpus(files)) {
    throw new SconceError(
      "usage",
      `libtorch ${files.torch} is for GPUs and has gigabytes of libraries: set up with the CPU-only libtorch, or put an executable of "sconce compile --libtorch external" into an image that has PyTorch`,
    );
  }
  const executable = join(folder, "server");
  await compileExecutable({ outfile: executable, model: "beside", libtorch: "beside" });
  return { executable, libraries: [files.addon, ...files.libtorch] };
}
