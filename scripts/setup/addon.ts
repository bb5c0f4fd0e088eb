/** Step "addon": sconce.node and pixels.so in build/Release, prebuilt ones where there are some of these sources, else compiled from native/ against libtorch. */

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
import { Failure, missingTool, run } from "./command.ts";
import { readLibtorch } from "./libtorch.ts";
import type { Step } from "./step.ts";
import { isStamped, readText, root, writeStamp } from "./step.ts";

const build = join(root, "build");
const release = join(build, "Release");
/** The addon for pictures, which needs no libtorch: imported as `#pixels`. */
export const pixelsName = "pixels.so";
const names = ["sconce.node", pixelsName];
/** How it finds libtorch (see CMakeLists.txt). */
const link = join(release, "libtorch");
/** What set-up itself compiled for one torch or another: going to and fro between two must not compile each time. */
const compiled = join(build, "compiled");
/** In each a folder for each minor of torch, with the digest of the sources; the first is made by `npm run pack`. */
const prebuiltFolders = [
  join(build, "addons"),
  compiled,
  join(root, "node_modules", "@sconce", `linux-${process.arch}-gnu`),
];

export const addon: Step = {
  name: "addon",

  inputs() {
    const configured = configuration();
    return configured && JSON.stringify([configured, sources()]);
  },

  isIntact: () => [...names, "libtorch"].every((name) => existsSync(join(release, name))),

  async missingTools() {
    // Of which torch is not known yet; there is one for each that is supported.
    if (prebuiltFolders.some((folder) => existsSync(folder) && readdirSync(folder).some(prebuilt))) return [];
    const has = (...names: string[]) => names.some((name) => Bun.which(name));
    const { CXX } = process.env;
    return [
      ...(has("cmake") ? [] : [missingTool("CMake", { apt: "cmake" })]),
      ...(has("c++", "g++", "clang++", ...(CXX ? [CXX] : []))
        ? []
        : [missingTool("a C++ compiler", { apt: "g++", dnf: "gcc-c++", brew: "llvm" })]),
      ...(has("ninja", "make") ? [] : [missingTool("Ninja or Make", { apt: "ninja-build", brew: "ninja" })]),
    ];
  },

  async run({ line, verbose }) {
    const libtorch = readLibtorch();
    const configured = configuration();
    if (!libtorch || !configured) throw new Failure(["libtorch is not set up"]);
    const ready = prebuilt(minorOf(libtorch.build));
    if (ready === undefined) {
      // CMake remembers what it found: a build folder of another libtorch, or of a checkout at another place, is of no use.
      if (!isStamped("addon-configuration", configured) || !wasConfiguredHere()) {
        for (const name of existsSync(build) ? readdirSync(build) : []) {
          if (name !== "addons" && name !== "compiled") rmSync(join(build, name), { recursive: true });
        }
      }
      writeStamp("addon-configuration", configured);
      line.update(`compiling against libtorch ${libtorch.build}`);
      await compileAddon(libtorch.root, build, { verbose });
      keepAddon(release, join(compiled, minorOf(libtorch.build)));
    } else {
      mkdirSync(release, { recursive: true });
      copyAddon(ready, release);
    }
    rmSync(link, { force: true });
    symlinkSync(libtorch.root, link);
    return ready === undefined
      ? `compiled against libtorch ${libtorch.build}`
      : `prebuilt for torch ${minorOf(libtorch.build)}`;
  },
};

/** @param folder of CMake, in whose Release the files lie then */
export async function compileAddon(libtorch: string, folder: string, { verbose }: { verbose: boolean }): Promise<void> {
  const cmake = [process.execPath, "--bun", join(root, "node_modules", "cmake-js", "bin", "cmake-js")];
  const options = [
    "--log-level",
    "error",
    "--parallel",
    String(availableParallelism()),
    "--out",
    folder,
    // As the compiler names it in messages, from which CMakeLists.txt takes it away.
    `--CDLIBTORCH=${realpathSync(libtorch)}`,
  ];
  // Not cmake-js's "compile", which after an error in a source file does everything once more.
  await run([...cmake, "configure", ...options], { verbose });
  await run([...cmake, "build", ...options], { verbose });
}

/** Puts an addon of the sources that are here now into a folder for a minor of torch. */
export function keepAddon(made: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  rmSync(join(folder, "sources"), { force: true });
  copyAddon(made, folder);
  // Last: it says that the addon is whole.
  writeFileSync(join(folder, "sources"), `${sourcesDigest()}\n`);
}

/** Puts other files in the place of those that are there: a server may have them loaded, and what is loaded must not be written over. */
function copyAddon(from: string, to: string): void {
  for (const name of names) {
    copyFileSync(join(from, name), join(to, `${name}.new`));
    renameSync(join(to, `${name}.new`), join(to, name));
  }
}

/** The folder of the addon for a minor of torch that was made of the sources that are here now. */
function prebuilt(minor: string): string | undefined {
  const folders = prebuiltFolders.map((folder) => join(folder, minor));
  return folders.find((folder) => readText(join(folder, "sources"))?.trim() === sourcesDigest());
}

/** Hexadecimal: of all that an addon is made of but libtorch. */
export function sourcesDigest(): string {
  return new Bun.CryptoHasher("sha256").update(JSON.stringify([toolVersions(), sources()])).digest("hex");
}

/** What needs a clean build when it changes. */
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

/** A checkout that was moved can use the addon that it has, but not compile it anew in the same folder. */
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
