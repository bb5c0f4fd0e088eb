/** Finds the npm packages with native files. Each platform has its own, and npm installs the packages of the machine. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "./errors.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Processor architectures that have packages: Node's names, each with the name in Python and compilers. */
export const architectures = { x64: "x86_64", arm64: "aarch64" } as const;
export type Architecture = keyof typeof architectures;

/** The name of an architecture in OCI images and in Debian. */
export function ociArchitecture(arch: Architecture): "amd64" | "arm64" {
  return arch === "x64" ? "amd64" : arch;
}

export function isArchitecture(name: string): name is Architecture {
  return Object.hasOwn(architectures, name);
}

/** This machine's architecture. @throws SconceError `native_unavailable` on a platform without packages */
export function thisArchitecture(): Architecture {
  const { platform, arch } = process;
  if (platform === "linux" && isArchitecture(arch)) return arch;
  throw new SconceError(
    "native_unavailable",
    `sconce has no native addon for ${platform} ${arch}: it runs on Linux with glibc, on x64 and arm64`,
    { fix: "use such a machine, or a Linux container" },
  );
}

/** The package with the addons: `MINOR/sconce.node` for each minor release of torch, and `pixels.so`. */
export function platformPackage(arch = thisArchitecture()): string {
  return `@sconce/linux-${arch}-gnu`;
}

/** The package with libtorch for CPUs: its libraries in `lib/`, its version in `build-version`. */
export function libtorchPackage(arch = thisArchitecture()): string {
  return `@sconce/libtorch-linux-${arch}`;
}

/** Bun's package for a platform: the program `bin/bun`. */
export function bunPackage(arch: Architecture): string {
  return `@oven/bun-linux-${arch === "arm64" ? "aarch64" : arch}`;
}

/** The folder of an installed package; undefined without it. */
export function packageFolder(name: string): string | undefined {
  try {
    return dirname(Bun.resolveSync(`${name}/package.json`, root));
  } catch {
    return undefined;
  }
}

/** The folder of this platform's package with the addons. @throws SconceError `native_unavailable` without it */
export function addonsFolder(): string {
  const name = platformPackage();
  const folder = packageFolder(name);
  if (folder !== undefined) return folder;
  const isCheckout = existsSync(join(root, "native"));
  throw new SconceError(
    "native_unavailable",
    isCheckout ? "the native addon is not built" : `the native addon is missing: the package ${name} is not there`,
    { fix: isCheckout ? "run `npm run setup`" : `install ${name}` },
  );
}

/** File name of the addon for pictures, which does not use libtorch. */
export const pixelsName = "pixels.so";
const compiledPixels = join(root, "build", "Release", pixelsName);
let embeddedPixels: string | undefined;

/** Sets the path of the addon for pictures inside an executable. */
export function setPixelsFile(path: string): void {
  embeddedPixels = path;
}

/** The path of the addon for pictures. @throws SconceError `native_unavailable` without it */
export function pixelsFile(): string {
  if (embeddedPixels !== undefined) return embeddedPixels;
  return existsSync(compiledPixels) ? compiledPixels : join(addonsFolder(), pixelsName);
}
