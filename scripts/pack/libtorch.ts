/** Writes the files of the npm package with libtorch for CPUs. */
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { defaultTorch, libtorchRelease } from "../../src/machine/libtorch/libtorch-build.ts";
import { hasGpuLibraries, libraryFiles } from "../../src/package/executable/library-files.ts";
import { run } from "../setup/command.ts";
import { readLibtorch } from "../setup/libtorch.ts";

/**
 * Copies the set-up's libtorch.
 * @param folder gets `lib/`, `licenses/` and `build-version`
 * @param isStripped whether the copies lack local symbols, which take a fifth of the size
 * @returns the version of the npm package, which is the release of torch
 */
export async function writeLibtorch(folder: string, isStripped: boolean): Promise<string> {
  const { libtorch, torch } = await libraryFiles();
  const lib = join(folder, "lib");
  mkdirSync(lib, { recursive: true });
  for (const { name, path } of libtorch) cpSync(path, join(lib, name), { dereference: true });
  if (isStripped) {
    await run(["strip", "--strip-unneeded", ...libtorch.map(({ name }) => join(lib, name))], { verbose: false });
  }
  const licenses = licensesFolder();
  if (licenses !== undefined) cpSync(licenses, join(folder, "licenses"), { recursive: true });
  await Bun.write(join(folder, "build-version"), `${torch}\n`);
  return libtorchRelease(torch);
}

/**
 * Checks that the set-up's torch can be published: the default release for CPUs, with its licenses. @throws Error
 * otherwise
 */
export async function requirePublishable(): Promise<void> {
  const files = await libraryFiles();
  if (libtorchRelease(files.torch) === defaultTorch && !hasGpuLibraries(files) && licensesFolder() !== undefined)
    return;
  throw new Error(
    `the set-up has libtorch ${files.torch}; the package needs pip's torch ${defaultTorch} for CPUs: python3 -m pip install torch==${defaultTorch}, from PyTorch's index of CPU builds`,
  );
}

/** The folder of licenses of torch's wheel, which is beside the folder torch; undefined without it. */
function licensesFolder(): string | undefined {
  const packages = dirname(readLibtorch()?.root ?? "");
  const about = readdirSync(packages).find((name) => /^torch-.*\.dist-info$/.test(name));
  const folder = join(packages, about ?? "", "licenses");
  return about !== undefined && existsSync(folder) ? folder : undefined;
}
