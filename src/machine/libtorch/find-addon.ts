/**
 * Finds the native addon that fits this machine's libtorch, and loads libtorch for it. A platform package holds one prebuilt
 * addon for each minor release of torch.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "../../base/errors.ts";
import { addonsFolder } from "../../base/platform-package.ts";
import { isExecutable } from "../processes/program.ts";
import { findLibtorch, loadLibtorch } from "./external-libtorch.ts";
import { libtorchBuild, minorOf } from "./libtorch-build.ts";
import { type NativeLocation, nativeLocation } from "./native-location.ts";
import { addonName } from "./pack.ts";

export interface AddonFile {
  readonly path: string;
  /** Folder of the addon's libtorch, with `lib/`. */
  readonly libtorch: string;
  /** Whether the addon finds its libtorch without help, as an addon compiled in this checkout does. */
  readonly isLinked: boolean;
}

const root = fileURLToPath(new URL("../../..", import.meta.url));
const compiled = join(root, "build", "Release", addonName);

/**
 * The addon compiled in this checkout. Otherwise the addon for this machine's libtorch from the platform package, or
 * from the folder `addons` beside an executable.
 * @throws SconceError `native_unavailable`
 */
export function findAddon(): AddonFile {
  if (existsSync(compiled)) return { path: compiled, libtorch: join(dirname(compiled), "libtorch"), isLinked: true };
  const addons = isExecutable ? join(dirname(process.execPath), "addons") : addonsFolder();
  const libtorch = findLibtorch();
  return { path: addonFor(libtorch, addons), libtorch, isLinked: false };
}

/**
 * Returns the location of this process's addon: the location that was set, else the result of `findAddon`. Loads
 * libtorch for an addon that is not linked to it.
 * @throws SconceError `native_unavailable`
 */
export function addonLocation(): NativeLocation {
  const known = nativeLocation();
  if (known !== undefined) return known;
  const { path, libtorch, isLinked } = findAddon();
  if (isLinked) return { path, fix: "run `npm run setup`" };
  loadLibtorch(libtorch);
  return { path, fix: "install sconce again" };
}

/**
 * The path of the prebuilt addon for a libtorch.
 * @param addons folder with a subfolder for each minor release of torch
 * @throws SconceError `native_unavailable` when no addon fits this libtorch
 */
export function addonFor(libtorch: string, addons: string): string {
  const build = libtorchBuild(libtorch);
  const path = join(addons, minorOf(build ?? ""), addonName);
  if (build !== undefined && existsSync(path)) return path;
  const minors = readdirSync(addons)
    .filter((name) => existsSync(join(addons, name, addonName)))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  throw new SconceError(
    "native_unavailable",
    `torch ${build ?? "of no known version"} in ${libtorch}, but this sconce has addons for ${minors[0]} to ${minors.at(-1)}`,
    { fix: "install one of these versions of torch, or name its folder with LIBTORCH" },
  );
}
