/** Makes one executable with all commands and libtorch, e.g. dist/sconce-linux-x64. */
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import { temporaryFolder } from "../../src/machine/files/temporary-folder.ts";
import { type CompileOptions, type CompileResult, compileExecutable } from "../../src/package/executable/executable.ts";
import type { PackOptions } from "../pack.ts";
import { root } from "../setup/step.ts";
import { targetFor } from "./cross.ts";
import { packSources } from "./sources.ts";
import { tryCommandLine } from "./trial.ts";

export async function pack({ arch, isTried }: PackOptions): Promise<void> {
  const began = performance.now();
  const oneFile = join(root, "dist", `sconce-linux-${arch}`);
  const target = arch === process.arch ? {} : { target: await targetFor(arch) };
  const { size, librariesSize } = await compileCommandLine({ outfile: oneFile, libtorch: "embedded", ...target });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`${oneFile}: ${formatBytes(size)}, the libraries ${formatBytes(librariesSize)} of it, in ${seconds} s`);
  if (isTried && arch === process.arch) await tryCommandLine(oneFile);
}

export async function compileCommandLine(options: Omit<CompileOptions, "model">): Promise<CompileResult> {
  const folder = dirname(options.outfile);
  mkdirSync(folder, { recursive: true });
  using temporary = temporaryFolder(folder, ".sources-");
  return await compileExecutable({ ...options, model: await packSources(join(temporary.path, "sources")) });
}
