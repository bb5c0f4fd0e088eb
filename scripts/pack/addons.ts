/** The native addon for each supported minor of torch: build/addons/MINOR/sconce.node, with the digest of its sources. */
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import type { PackOptions } from "../pack.ts";
import { compileAddon, keepAddon, sourcesDigest } from "../setup/addon.ts";
import { readText, root } from "../setup/step.ts";
import { tryAddon } from "./addon-trial.ts";
import { releases } from "./releases.ts";
import { removeTorch, removeWheels, torchFor } from "./torch-wheel.ts";

export function addonPath(minor: string): string {
  return join(root, "build", "addons", minor, addonName);
}

/** Paths of the addons that were compiled from the current sources, by minor. */
export function madeAddons(minors: readonly string[]): Record<string, string> {
  const paths = minors.map((minor): [string, string] => [minor, addonPath(minor)]);
  return Object.fromEntries(paths.filter(([, path]) => isMade(path)));
}

function isMade(path: string): boolean {
  return existsSync(path) && readText(join(dirname(path), "sources"))?.trim() === sourcesDigest();
}

export async function pack({ isTried, minors, keepsTorch }: PackOptions): Promise<void> {
  for (const minor of minors) {
    const release = releases[minor] ?? minor;
    const path = addonPath(minor);
    const isNew = await makeAddon(path, release);
    if (isNew || isTried) await tryAddon(path, await torchFor(release));
    if (!keepsTorch) removeTorch(release);
    console.log(`addon ${minor}: ${formatBytes(statSync(path).size)}${isNew ? ", compiled" : ""}`);
  }
  if (!keepsTorch) removeWheels();
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
