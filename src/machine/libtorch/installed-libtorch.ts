/**
 * Versions of libtorch that `sconce libtorch install` installed. Each is a folder laid out like Python's site-packages.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { storeLocation } from "../files/location.ts";
import { compareReleases, parseVersion } from "./wheels/version.ts";

export interface InstalledLibtorch {
  /** Version of the wheel, e.g. `2.13.0+cpu`, with `-cuda` at the end if CUDA libraries are installed. */
  readonly name: string;
  /** Folder of the whole installation. */
  readonly folder: string;
  /** The folder that contains `lib/`. */
  readonly root: string;
}

/** All installations are subfolders of this folder. */
export function installationsFolder(): string {
  return join(storeLocation(), "libtorch");
}

/** Complete installations, the newest first; of one release, the CUDA installation first. */
export function installedLibtorchs(folder = installationsFolder()): InstalledLibtorch[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map((name) => ({ name, folder: join(folder, name), root: join(folder, name, "torch"), release: releaseOf(name) }))
    .filter(({ root, release }) => release !== undefined && existsSync(join(root, "lib", "libtorch_cpu.so")))
    .sort((a, b) => compareReleases(b.release ?? [], a.release ?? []) || (a.name > b.name ? -1 : 1))
    .map(({ release: _, ...installed }) => installed);
}

function releaseOf(name: string): readonly number[] | undefined {
  return parseVersion(name.replace(/-cuda$/, ""))?.release;
}
