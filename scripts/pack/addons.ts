/**
 * Compiles the native addon for each supported minor release of torch: build/compiled/MINOR/sconce.node, or for arm64
 * build/compiled-arm64/MINOR/sconce.node.
 */
import { mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import type { Architecture } from "../../src/base/platform-package.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import type { PackOptions } from "../pack.ts";
import { compileAddon, compiledFolder, isCompiled, keepAddon } from "../setup/addon.ts";
import { Failure } from "../setup/command.ts";
import { state } from "../setup/step.ts";
import { tryAddon } from "./addon-trial.ts";
import { crossCompiler } from "./cross.ts";
import { releases } from "./releases.ts";
import { removeTorch, removeWheels, torchFor } from "./torch-wheel.ts";

function addonPath(minor: string, arch: Architecture): string {
  return join(compiledFolder(arch), minor, addonName);
}

/**
 * Paths of compiled addons, by minor release of torch. Addons of older sources are left out.
 * @throws Failure if there are none
 */
export function madeAddons({ minors, arch }: Pick<PackOptions, "minors" | "arch">): Record<string, string> {
  const made = minors.filter((minor) => isCompiled(minor, arch));
  if (made.length === 0) throw new Failure(["there are no addons of these sources: npm run pack -- addons"]);
  return Object.fromEntries(made.map((minor) => [minor, addonPath(minor, arch)]));
}

export async function pack({ arch, isTried, minors, keepsTorch }: PackOptions): Promise<void> {
  const compiler = crossCompiler(arch);
  for (const minor of minors) {
    const release = releases[minor] ?? minor;
    const path = addonPath(minor, arch);
    const isNew = !isCompiled(minor, arch);
    if (isNew) await compile({ minor, release, arch, compiler });
    if (arch === process.arch && (isNew || isTried)) await tryAddon(path, await torchFor(release, arch));
    if (!keepsTorch) removeTorch(release, arch);
    console.log(`addon ${minor}: ${formatBytes(statSync(path).size)}${isNew ? ", compiled" : ""}`);
  }
  if (!keepsTorch) removeWheels();
}

interface CompileOptions {
  readonly minor: string;
  readonly release: string;
  readonly arch: Architecture;
  readonly compiler: Readonly<Record<string, string>>;
}

async function compile({ minor, release, arch, compiler }: CompileOptions): Promise<void> {
  const work = join(state, "pack", "cmake");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  await compileAddon(await torchFor(release, arch), work, { verbose: false, definitions: compiler });
  keepAddon(join(work, "Release"), minor, arch);
  rmSync(work, { recursive: true });
}
