/** Step "addon": compiles native/ against libtorch into build/Release/sconce.node. */

import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Failure, missingTool, run } from "./command.ts";
import { readLibtorch } from "./libtorch.ts";
import type { Step } from "./step.ts";
import { isStamped, readText, root, writeStamp } from "./step.ts";

const build = join(root, "build");

export const addon: Step = {
  name: "addon",

  inputs() {
    const configured = configuration();
    return configured && JSON.stringify([configured, sources()]);
  },

  isIntact: () => existsSync(join(build, "Release", "sconce.node")),

  async missingTools() {
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
    // CMake remembers what it found: a build folder of another libtorch, or of a checkout at another place, is of no use.
    if (!isStamped("addon-configuration", configured) || !wasConfiguredHere()) {
      rmSync(build, { recursive: true, force: true });
    }
    writeStamp("addon-configuration", configured);
    line.update(`compiling against libtorch ${libtorch.build}`);
    const cmake = [process.execPath, "--bun", join(root, "node_modules", "cmake-js", "bin", "cmake-js")];
    const options = [
      "--log-level",
      "error",
      "--parallel",
      String(availableParallelism()),
      `--CDLIBTORCH=${libtorch.root}`,
    ];
    // Not cmake-js's "compile", which after an error in a source file does everything once more.
    await run([...cmake, "configure", ...options], { verbose });
    await run([...cmake, "build", ...options], { verbose });
    return `compiled against libtorch ${libtorch.build}`;
  },
};

/** What needs a clean build when it changes. */
function configuration(): string | undefined {
  const libtorch = readLibtorch();
  if (!libtorch) return undefined;
  const { devDependencies } = JSON.parse(readText(join(root, "package.json")) ?? "{}");
  const versions = ["cmake-js", "node-addon-api", "node-api-headers"].map((name) => devDependencies[name]);
  return JSON.stringify([libtorch.root, libtorch.build, process.platform, process.arch, versions]);
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
