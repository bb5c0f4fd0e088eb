/**
 * Makes the server program of a container image: an executable without libtorch and model, and its libraries as
 * separate files.
 */
import { join } from "node:path";
import { compileExecutable } from "../executable/executable.ts";
import { cpuLibraryFiles } from "../executable/library-files.ts";
import type { ImageProgram } from "./contents.ts";

/**
 * Writes the executable to `folder`, which must exist until the image is written.
 * @throws SconceError `usage` outside Linux, `native_unavailable` when the addon or libtorch is not found
 */
export async function makeProgram(folder: string): Promise<ImageProgram> {
  const files = await cpuLibraryFiles();
  const executable = join(folder, "server");
  await compileExecutable({ outfile: executable, model: "beside", libtorch: "beside" });
  return { executable, libraries: [files.addon, ...files.libtorch] };
}
