/** The libtorchs that `sconce libtorch install` has put down: a folder each, with what a Python would have in its site-packages. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { storeLocation } from "../store/location.ts";
import { compareReleases, parseVersion } from "../wheels/version.ts";

export interface InstalledLibtorch {
  /** `2.13.0+cpu`, as its wheel was called; with `-cuda` at the end it has all that GPUs take. */
  readonly name: string;
  /** What was put down for it. */
  readonly folder: string;
  /** The folder with `lib/` in it. */
  readonly root: string;
}

/** Whatever is written there, in no other than its own folders. */
export function installationsFolder(): string {
  return join(storeLocation(), "libtorch");
}

/** Complete ones, the newest first; of one release that for GPUs. */
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
