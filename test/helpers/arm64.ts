/** Root file systems of Linux on arm64, whose programs run through the emulator qemu. */
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { targetFor } from "../../scripts/pack/cross.ts";
import { isCompiled } from "../../scripts/setup/addon.ts";
import { Failure, run } from "../../scripts/setup/command.ts";
import { defaultTorch, minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { packLibraries } from "../../src/package/executable/library-pack.ts";
import { type BareRoot, bareRoot, type Emulation, emulationObstacle } from "./bare-root.ts";
import { debianTool } from "./debian-tools.ts";
import { cacheFolder } from "./machine.ts";

export const minor = minorOf(defaultTorch);
const qemu = debianTool("qemu-user-static")?.command;
const compiler = debianTool("g++-aarch64-linux-gnu");
/** The folder `usr` of the cross compiler, which has the C and C++ libraries, too. */
const usr = dirname(dirname(compiler?.command ?? ""));
const system = join(usr, "aarch64-linux-gnu/lib");
const libraries = [
  "ld-linux-aarch64.so.1",
  "libc.so.6",
  "libdl.so.2",
  "libgcc_s.so.1",
  "libm.so.6",
  "libpthread.so.0",
  "libresolv.so.2",
  "librt.so.1",
  "libstdc++.so.6",
];

/** The first bytes of a program for arm64 (little endian, in the form ELF), and the bits of these bytes that count. */
const [head, mask] = [
  "7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 b7 00",
  `${"ff ".repeat(7)}00 ${"ff ".repeat(8)}fe ff ff ff`,
];
const escaped = (bytes: string) => bytes.replaceAll(/ ?(..)/g, "\\x$1");

/** A Neoverse N1, which lacks SVE like many machines. qemu's default processor has all extensions. */
export const emulation: Emulation = {
  registration: `:arm64:M::${escaped(head)}:${escaped(mask)}:${qemu}:FP`,
  cpuinfo: Array.from({ length: availableParallelism() }, (_, i) => processor(i)).join("\n"),
  env: { QEMU_CPU: "neoverse-n1" },
};

/** Why this machine cannot make programs for arm64, and run them; undefined if it can. */
function toolObstacle(): string | undefined {
  if (process.arch === "arm64") return "this machine is arm64: the other tests run on it";
  if (qemu === undefined) return "it needs qemu-aarch64-static, of Debian's package qemu-user-static";
  if (!existsSync(join(system, "libc.so.6"))) return "it needs the compiler aarch64-linux-gnu-g++ with its libraries";
  return emulationObstacle(emulation);
}

/** Why tests on arm64 cannot run; undefined if they can. */
export async function arm64Obstacle(): Promise<string | undefined> {
  const obstacle = toolObstacle();
  if (obstacle !== undefined) return obstacle;
  if (!isCompiled(minor, "arm64")) return "the addon is not compiled for arm64";
  return targetFor("arm64").then(() => undefined, reasonOf);
}

/** Compiles the addons for arm64, if the tests can run them. @returns why they are missing, in words */
export async function packArm64(): Promise<string | undefined> {
  const obstacle = toolObstacle();
  if (obstacle !== undefined) return obstacle;
  const isUnpacked = usr !== "/usr";
  const env = isUnpacked && {
    ...compiler?.env,
    PATH: `${join(usr, "bin")}${delimiter}${process.env.PATH}`,
    CXXFLAGS: `--sysroot=${dirname(usr)}`,
  };
  const script = join(import.meta.dir, "../../scripts/pack.ts");
  try {
    const options = ["addons", "--arch", "arm64", "--torch", minor, "--keep-torch"];
    await run([process.execPath, "--no-install", script, ...options], { verbose: false, env: { ...env } });
    const { addon, libtorch } = (await targetFor("arm64")).files;
    // The highest level of compression would take most of the time of the tests.
    await packLibraries([addon, ...libtorch], { cacheFolder, level: 1 });
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

/** A root file system for programs of arm64, with the system's libraries. */
export async function arm64Root(): Promise<BareRoot> {
  const root = await bareRoot(emulation);
  await root.add(Object.fromEntries(libraries.map((name) => [`/lib/${name}`, join(system, name)])));
  return root;
}

/** The first line with an error in the output of a failed command. */
function reasonOf(error: unknown): string {
  if (error instanceof Failure) return error.lines.find((each) => /\berror:/i.test(each)) ?? error.message;
  throw error;
}

function processor(index: number): string {
  return `processor\t: ${index}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
`;
}
