/** The native addon for each supported minor of torch: build/addons/MINOR/sconce.node, with the digest of its sources. */
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatBytes } from "../../src/bytes.ts";
import { addonName } from "../../src/libraries/pack.ts";
import { compileAddon, keepAddon, sourcesDigest } from "../setup/addon.ts";
import { readText, root } from "../setup/step.ts";
import { tryAddon } from "./addon-trial.ts";
import { torchFor } from "./torch-wheel.ts";

/** The release of torch that the addon of each minor is compiled against. */
export const releases = {
  "2.11": "2.11.0",
  "2.12": "2.12.0",
  "2.13": "2.13.0",
  "2.14": "2.14.1",
  "2.15": "2.15.0",
} as const;

export function addonPath(minor: string): string {
  return join(root, "build", "addons", minor, addonName);
}

/** Those of the sources that are here now: their paths, by minor. */
export function madeAddons(): Record<string, string> {
  const paths = Object.keys(releases).map((minor): [string, string] => [minor, addonPath(minor)]);
  return Object.fromEntries(paths.filter(([, path]) => isMade(path)));
}

function isMade(path: string): boolean {
  return existsSync(path) && readText(join(dirname(path), "sources"))?.trim() === sourcesDigest();
}

export async function pack({ isTried }: { isTried: boolean }): Promise<void> {
  for (const [minor, release] of Object.entries(releases)) {
    const path = addonPath(minor);
    const isNew = await makeAddon(path, release);
    if (isNew || isTried) await tryAddon(path, await torchFor(release));
    console.log(`addon ${minor}: ${formatBytes(statSync(path).size)}${isNew ? ", compiled" : ""}`);
  }
}

/** @returns whether it was compiled, and not there already */
async function makeAddon(path: string, release: string): Promise<boolean> {
  const folder = dirname(path);
  if (isMade(path)) return false;
  const work = join(folder, "cmake");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  await compileAddon(await torchFor(release), work, { verbose: false });
  keepAddon(join(work, "Release"), folder);
  rmSync(work, { recursive: true });
  return true;
}
