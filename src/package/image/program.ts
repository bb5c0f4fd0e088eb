/**
 * Makes the server program of a container image: an executable without libtorch and model, and its libraries as
 * separate files.
 */
import { join } from "node:path";
import type { Architecture } from "../../base/platform-package.ts";
import { compileExecutable } from "../executable/executable.ts";
import { cpuLibraryFiles } from "../executable/library-files.ts";
import { installedTarget, ownTarget } from "../executable/target.ts";
import type { ImageProgram } from "./contents.ts";

/**
 * Writes the executable to `folder`, which must exist until the image is written.
 * @throws SconceError `usage` outside Linux, `native_unavailable` when the addon or libtorch is not found
 */
export async function makeProgram(folder: string, arch: Architecture): Promise<ImageProgram> {
  const target = arch === process.arch ? ownTarget(await cpuLibraryFiles()) : installedTarget(arch);
  const executable = join(folder, `server-${arch}`);
  await compileExecutable({ outfile: executable, model: "beside", libtorch: "beside", target });
  return { arch, executable, libraries: [target.files.addon, ...target.files.libtorch] };
}
