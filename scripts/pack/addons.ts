/** Compiles the native addon for each supported minor release of torch: build/compiled/MINOR/sconce.node. */
import { mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import type { PackOptions } from "../pack.ts";
import { compileAddon, compiledFolder, isCompiled, keepAddon } from "../setup/addon.ts";
import { state } from "../setup/step.ts";
import { tryAddon } from "./addon-trial.ts";
import { releases } from "./releases.ts";
import { removeTorch, removeWheels, torchFor } from "./torch-wheel.ts";

function addonPath(minor: string): string {
  return join(compiledFolder, minor, addonName);
}

/** Paths of addons that were compiled from the current sources, by minor release of torch. */
export function madeAddons(minors: readonly string[]): Record<string, string> {
  return Object.fromEntries(minors.filter(isCompiled).map((minor) => [minor, addonPath(minor)]));
}

export async function pack({ isTried, minors, keepsTorch }: PackOptions): Promise<void> {
  for (const minor of minors) {
    const release = releases[minor] ?? minor;
    const path = addonPath(minor);
    const isNew = !isCompiled(minor);
    if (isNew) await compile(minor, release);
    if (isNew || isTried) await tryAddon(path, await torchFor(release));
    if (!keepsTorch) removeTorch(release);
    console.log(`addon ${minor}: ${formatBytes(statSync(path).size)}${isNew ? ", compiled" : ""}`);
  }
  if (!keepsTorch) removeWheels();
}

async function compile(minor: string, release: string): Promise<void> {
  const work = join(state, "pack", "cmake");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  await compileAddon(await torchFor(release), work, { verbose: false });
  keepAddon(join(work, "Release"), minor);
  rmSync(work, { recursive: true });
}
