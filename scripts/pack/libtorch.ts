/** Writes the files of the npm package with libtorch for CPUs. */
import { cpSync, existsSync, mkdirSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { defaultTorch, libtorchRelease } from "../../src/machine/libtorch/libtorch-build.ts";
import type { Target } from "../../src/package/executable/target.ts";
import { run } from "../setup/command.ts";
import { isForCpus, toolPrefix } from "./cross.ts";

/**
 * Copies the libtorch of a target.
 * @param folder gets `lib/`, `licenses/` and `build-version`
 * @param isStripped whether the copies lack local symbols, which take a fifth of the size
 * @returns the version of the npm package, which is the release of torch
 */
export async function writeLibtorch(folder: string, target: Target, isStripped: boolean): Promise<string> {
  const { libtorch, torch } = target.files;
  const lib = join(folder, "lib");
  mkdirSync(lib, { recursive: true });
  for (const { name, path } of libtorch) cpSync(path, join(lib, name), { dereference: true });
  if (isStripped) {
    const strip = `${toolPrefix(target.arch)}strip`;
    await run([strip, "--strip-unneeded", ...libtorch.map(({ name }) => join(lib, name))], { verbose: false });
  }
  const licenses = licensesFolder(target);
  if (licenses !== undefined) cpSync(licenses, join(folder, "licenses"), { recursive: true });
  await Bun.write(join(folder, "build-version"), `${torch}\n`);
  return libtorchRelease(torch);
}

/**
 * Checks that a torch can be published: the default release for CPUs, with its licenses. For another architecture than
 * this machine's, also accepts a build for GPUs: that package is for tests, and npm refuses to publish it.
 * @throws Error for any other torch
 */
export function requirePublishable(target: Target): void {
  const { torch } = target.files;
  if (target.arch !== process.arch && !isForCpus(target)) return;
  if (libtorchRelease(torch) === defaultTorch && isForCpus(target) && licensesFolder(target) !== undefined) return;
  throw new Error(
    `the set-up has libtorch ${torch}; the package needs pip's torch ${defaultTorch} for CPUs: python3 -m pip install torch==${defaultTorch}, from PyTorch's index of CPU builds`,
  );
}

/** The folder of licenses of torch's wheel, which is beside the folder torch; undefined without it. */
function licensesFolder({ files }: Target): string | undefined {
  const library = files.libtorch.find(({ name }) => name === "libtorch_cpu.so");
  const packages = dirname(dirname(dirname(realpathSync(library?.path ?? "."))));
  const about = readdirSync(packages).find((name) => /^torch-.*\.dist-info$/.test(name));
  const folder = join(packages, about ?? "", "licenses");
  return about !== undefined && existsSync(folder) ? folder : undefined;
}
