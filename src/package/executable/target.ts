/** The platform for which a program is compiled, with Bun and the native files for it. */
import { type Architecture, pixelsFile, thisArchitecture } from "../../base/platform-package.ts";
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
