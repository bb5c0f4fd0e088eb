/** The platform for which a program is compiled, with Bun and the native files for it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import {
  type Architecture,
  bunPackage,
  libtorchPackage,
  packageFolder,
  pixelsFile,
  pixelsName,
  platformPackage,
  thisArchitecture,
} from "../../base/platform-package.ts";
import { addonFor } from "../../machine/libtorch/find-addon.ts";
import { libtorchBuild } from "../../machine/libtorch/libtorch-build.ts";
import { addonName } from "../../machine/libtorch/pack.ts";
import type { LibraryFiles } from "./library-files.ts";

export interface Target {
  readonly arch: Architecture;
  /** Path of Bun for the platform. */
  readonly bun: string;
  /** Path of the addon for pictures. */
  readonly pixels: string;
  readonly files: LibraryFiles;
}

/** This machine as a target. @throws SconceError `native_unavailable` without the addon for pictures */
export function ownTarget(files: LibraryFiles): Target {
  return { arch: thisArchitecture(), bun: process.execPath, pixels: pixelsFile(), files };
}

/** Another platform as a target, from installed npm packages. @throws SconceError `native_unavailable` without them */
export function installedTarget(arch: Architecture): Target {
  const folderOf = (name: string) => {
    const folder = packageFolder(name);
    if (folder !== undefined) return folder;
    throw new SconceError("native_unavailable", `programs for ${arch} need the package ${name}, which is not there`, {
      fix: `in a project with the npm package sconce: bun add --cpu '*' sconce ${bunPackage(arch)}@${Bun.version}`,
    });
  };
  const addons = folderOf(platformPackage(arch));
  const libtorch = folderOf(libtorchPackage(arch));
  const bun = folderOf(bunPackage(arch));
  const lib = join(libtorch, "lib");
  return {
    arch,
    bun: join(bun, "bin/bun"),
    pixels: join(addons, pixelsName),
    files: {
      torch: libtorchBuild(libtorch) ?? "",
      addon: { name: addonName, path: addonFor(libtorch, addons) },
      libtorch: readdirSync(lib).map((name) => ({ name, path: join(lib, name) })),
    },
  };
}
