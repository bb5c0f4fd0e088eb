/**
 * Compiles the command line into one file for the tests. It starts with two thirds of the processor time of the
 * sources.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { compileCommandLine } from "../../scripts/pack/one-file.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { root } from "../../scripts/setup/step.ts";
import { minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";

/**
 * Compiles the sources of this checkout to the file `path`, and links the addon beside it. A running file is replaced,
 * not overwritten.
 */
export async function compiledProgram(path: string): Promise<void> {
  const addon = join(dirname(path), "addons", minorOf(readLibtorch()?.build ?? ""), addonName);
  mkdirSync(dirname(addon), { recursive: true });
  // The checkout may have been moved or copied, so an old link may be wrong.
  rmSync(addon, { force: true });
  symlinkSync(join(root, "build/Release", addonName), addon);
  const temporary = mkdtempSync(join(dirname(path), ".unfinished-"));
  try {
    const outfile = join(temporary, basename(path));
    await compileCommandLine({ outfile, libtorch: "beside" });
    renameSync(outfile, path);
  } finally {
    rmSync(temporary, { recursive: true });
  }
}
