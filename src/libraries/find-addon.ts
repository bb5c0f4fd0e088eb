/** Which native addon this sconce has for the libtorch of this machine: prebuilt ones lie in a package, one for each minor of torch. */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "../errors.ts";
import { isExecutable } from "../processes/program.ts";
import { findLibtorch } from "./external-libtorch.ts";
import { libtorchBuild, minorOf } from "./libtorch-build.ts";
import { addonName } from "./pack.ts";

export interface AddonFile {
  readonly path: string;
  /** The folder of its libtorch, with `lib/`. */
  readonly libtorch: string;
  /** Whether it finds that libtorch by itself, as one that was compiled here does. */
  readonly isLinked: boolean;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const compiled = join(root, "build", "Release", addonName);
export const platformPackage = `@sconce/${process.platform}-${process.arch}${process.platform === "linux" ? "-gnu" : ""}`;

/** @throws SconceError `native_unavailable` */
export function findAddon(): AddonFile {
  if (existsSync(compiled)) return { path: compiled, libtorch: join(dirname(compiled), "libtorch"), isLinked: true };
  const libtorch = findLibtorch();
  return { path: addonFor(libtorch, addonsFolder()), libtorch, isLinked: false };
}

/**
 * @param addons holds a folder for each minor of torch
 * @throws SconceError `native_unavailable` where none is for this libtorch
 */
export function addonFor(libtorch: string, addons: string): string {
  const build = libtorchBuild(libtorch);
  const path = join(addons, minorOf(build ?? ""), addonName);
  if (build !== undefined && existsSync(path)) return path;
  const minors = readdirSync(addons)
    .filter((name) => existsSync(join(addons, name, addonName)))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  throw unavailable(
    `torch ${build ?? "of no known version"} in ${libtorch}, but this sconce has addons for ${minors[0]} to ${minors.at(-1)}`,
    `install one with \`sconce libtorch install\`, or name another with LIBTORCH`,
  );
}

function addonsFolder(): string {
  if (isExecutable) return join(dirname(process.execPath), "addons");
  try {
    return dirname(Bun.resolveSync(`${platformPackage}/package.json`, root));
  } catch (cause) {
    throw unavailable(
      existsSync(join(root, "native"))
        ? `the native addon is not built (${compiled} is missing)`
        : `the native addon is missing: the package ${platformPackage} is not there`,
      existsSync(join(root, "native")) ? "run `npm run setup`" : `install ${platformPackage}`,
      cause,
    );
  }
}

function unavailable(message: string, mend: string, cause?: unknown): SconceError {
  return new SconceError("native_unavailable", message, { mend, cause });
}
