/**
 * The set-up step "addon": compiles sconce.node and pixels.so from native/ against libtorch into build/Release, unless
 * this is done already.
 */

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { buildTools, missingBuildTools } from "./build-tools.ts";
import { type CommandOptions, Failure, missingTool, run } from "./command.ts";
import { readLibtorch } from "./libtorch.ts";
import type { Step } from "./step.ts";
import { isStamped, readText, root, writeStamp } from "./step.ts";

const build = join(root, "build");
const release = join(build, "Release");
const names = ["sconce.node", "pixels.so"];
/** A symbolic link by which the addon finds libtorch (see CMakeLists.txt). */
const link = join(release, "libtorch");
/**
 * Folder of compiled addons, which the set-up and `npm run pack` share. It has a folder for each minor release of
 * torch, with the digest of the sources.
 */
export function compiledFolder(arch: string = process.arch): string {
  return join(build, arch === process.arch ? "compiled" : `compiled-${arch}`);
}

export const addon: Step = {
  name: "addon",

  inputs() {
    const configured = configuration();
    return configured && JSON.stringify([configured, sources()]);
  },

  isIntact: () => [...names, "libtorch"].every((name) => existsSync(join(release, name))),

  async missingTools() {
    const compiled = compiledFolder();
    if (existsSync(compiled) && readdirSync(compiled).some((minor) => isCompiled(minor))) return [];
    const has = (...names: string[]) => names.some((name) => Bun.which(name));
    const { CXX } = process.env;
    const hasCompiler = has("c++", "g++", "clang++", ...(CXX ? [CXX] : []));
    const compiler = missingTool("a C++ compiler", { apt: "g++", dnf: "gcc-c++", brew: "llvm" });
    return [...(await missingBuildTools()), ...(hasCompiler ? [] : [compiler])];
  },

  async run({ line, verbose }) {
    const libtorch = readLibtorch();
    const configured = configuration();
    if (!libtorch || !configured) throw new Failure(["libtorch is not set up"]);
    const minor = minorOf(libtorch.build);
    const wasCompiled = isCompiled(minor);
    if (wasCompiled) {
      mkdirSync(release, { recursive: true });
      copyAddon(join(compiledFolder(), minor), release);
    } else {
      // CMake caches paths, so a build folder for another libtorch, or of a moved checkout, is useless.
      if (!isStamped("addon-configuration", configured) || !wasConfiguredHere()) {
        for (const name of existsSync(build) ? readdirSync(build) : []) {
          if (name !== "page" && !name.startsWith("compiled")) rmSync(join(build, name), { recursive: true });
        }
      }
      writeStamp("addon-configuration", configured);
      const env = await buildTools({ line, verbose });
      const activity = `compiling against libtorch ${libtorch.build}, for minutes`;
      line.update(activity);
      // Ninja prints `[3/60] Building …`, and Make `[ 5%] Building …`.
      const onOutput = (text: string) => {
        const done = text.match(/\[ *(\d+\/\d+|\d+%)\]/g)?.at(-1);
        if (done !== undefined) line.progress(`${activity} ${done}`);
      };
      await compileAddon(libtorch.root, build, { verbose, env, onOutput });
      keepAddon(release, minor);
    }
    rmSync(link, { force: true });
    symlinkSync(libtorch.root, link);
    return wasCompiled ? `compiled before, for torch ${minor}` : `compiled against libtorch ${libtorch.build}`;
  },
};

export interface AddonOptions extends CommandOptions {
  /** Variables of CMake, for another platform. */
  readonly definitions?: Readonly<Record<string, string>>;
}

/** Compiles the addon. @param folder build folder of CMake; the results are in its subfolder Release */
export async function compileAddon(libtorch: string, folder: string, how: AddonOptions): Promise<void> {
  const cmake = [process.execPath, "--bun", join(root, "node_modules", "cmake-js", "bin", "cmake-js")];
  const options = [
    "--log-level",
    "error",
    "--parallel",
    String(availableParallelism()),
    "--out",
    folder,
    // CMakeLists.txt strips this prefix from the paths in the addon. The compiler writes real paths.
    ...Object.entries({ LIBTORCH: realpathSync(libtorch), ...how.definitions }).map((pair) => `--CD${pair.join("=")}`),
  ];
  // Runs two commands, because "compile" of cmake-js repeats the whole build after an error in a source file.
  await run([...cmake, "configure", ...options], how);
  await run([...cmake, "build", ...options], how);
}

/** Copies an addon into the folder of compiled addons, so that later builds of the same sources can use it. */
export function keepAddon(made: string, minor: string, arch?: string): void {
  const folder = join(compiledFolder(arch), minor);
  mkdirSync(folder, { recursive: true });
  rmSync(join(folder, "sources"), { force: true });
  copyAddon(made, folder);
  // Writes this file last, because it marks the folder as complete.
  writeFileSync(join(folder, "sources"), `${sourcesDigest()}\n`);
}

/**
 * Copies the addon's files and renames them into place: changing bytes of a library would crash every process that has
 * loaded it.
 */
function copyAddon(from: string, to: string): void {
  for (const name of names) {
    copyFileSync(join(from, name), join(to, `${name}.new`));
    renameSync(join(to, `${name}.new`), join(to, name));
  }
}

/** Whether there is an addon of the current sources for a minor release of torch. */
export function isCompiled(minor: string, arch?: string): boolean {
  return readText(join(compiledFolder(arch), minor, "sources"))?.trim() === sourcesDigest();
}

/** SHA-256 in hex of the addon's sources and of the versions of its build packages, without libtorch. */
export function sourcesDigest(): string {
  return new Bun.CryptoHasher("sha256").update(JSON.stringify([toolVersions(), sources()])).digest("hex");
}

/** Values whose change makes a clean build necessary, as text; undefined without libtorch. */
function configuration(): string | undefined {
  const libtorch = readLibtorch();
  if (!libtorch) return undefined;
  return JSON.stringify([libtorch.root, libtorch.build, process.platform, process.arch, toolVersions()]);
}

function toolVersions(): string[] {
  const { devDependencies } = JSON.parse(readText(join(root, "package.json")) ?? "{}");
  return ["cmake-js", "node-addon-api", "node-api-headers", "@julusian/jpeg-turbo"].map(
    (name) => devDependencies[name],
  );
}

/** Whether CMake can build in its folder again. It cannot in a moved checkout, because it caches paths. */
function wasConfiguredHere(): boolean {
  const cache = readText(join(build, "CMakeCache.txt"));
  return cache === undefined || cache.includes(`\nCMAKE_HOME_DIRECTORY:INTERNAL=${root}\n`);
}

function sources(): [string, string | undefined][] {
  const native = join(root, "native");
  const names = existsSync(native) ? readdirSync(native, { recursive: true, encoding: "utf8" }).sort() : [];
  const files = ["CMakeLists.txt", ...names.map((name) => join("native", name))];
  const isFile = (file: string) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile() === true;
  return files.filter(isFile).map((file) => [file, readText(join(root, file))]);
}
