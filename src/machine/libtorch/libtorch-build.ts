/** The releases of torch that sconce supports, and the version of a libtorch folder. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Minor releases of torch that sconce is built and tested with, the oldest first. */
export const torchMinors: readonly string[] = ["2.11", "2.12", "2.13", "2.14", "2.15"];

/** The release of torch that set-up installs, and that the npm package of libtorch contains. */
export const defaultTorch = "2.13.0";

/**
 * Version and build variant, e.g. `2.13.0+cpu`, from version.py of a Python package or build-version of a C++
 * distribution. Undefined without either file.
 */
export function libtorchBuild(folder: string): string | undefined {
  const read = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : undefined;
  return /__version__ = ['"]([^'"]+)['"]/.exec(read("version.py") ?? "")?.[1] ?? read("build-version")?.trim();
}

/** The release in a build: `2.13.0` for `2.13.0+cpu`. */
export function libtorchRelease(build: string): string {
  return build.replace(/\+.*$/, "");
}

/** The minor release in a build: `2.13` for `2.13.0+cpu`. */
export function minorOf(build: string): string {
  return build.split(".", 2).join(".");
}
