/** The command line as one file for tests: its start takes two thirds of the processor time of a start from sources. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { compileCommandLine } from "../../scripts/pack/one-file.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { root } from "../../scripts/setup/step.ts";
import { minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";

/** Compiles the sources of this checkout, with the addon beside the file. @param path of the file; a running file is replaced, not changed */
export async function compiledProgram(path: string): Promise<void> {
  const addon = join(dirname(path), "addons", minorOf(readLibtorch()?.build ?? ""), addonName);
  mkdirSync(dirname(addon), { recursive: true });
  // In a moved or copied checkout, the link names another place.
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
