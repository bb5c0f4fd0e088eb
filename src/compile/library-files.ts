/** Which files the addon of this checkout needs at run time, beyond the C and C++ libraries that every system has. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "../errors.ts";
import { libtorchBuild } from "../libraries/libtorch-build.ts";
import { addonName } from "../libraries/pack.ts";
import { linkedTo } from "./linked-libraries.ts";

export interface LibraryFile {
  /** As it is looked for by what needs it. */
  readonly name: string;
  readonly content: string | Uint8Array<ArrayBuffer>;
}

export interface LibraryFiles {
  /** `2.13.0+cpu` */
  readonly torch: string;
  readonly addon: LibraryFile;
  /** libtorch and what comes with it. */
  readonly libtorch: readonly LibraryFile[];
}

const addonPath = fileURLToPath(new URL("../../build/Release/sconce.node", import.meta.url));

/** glibc, and the C++ runtime: what "nothing but glibc and libstdc++" is. */
const systemLibraries =
  /^(linux-vdso|ld-linux[-\w]*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so/;

/** @throws SconceError `native_unavailable` where the addon is not built or its libraries are not found */
export async function libraryFiles(): Promise<LibraryFiles> {
  if (process.platform !== "linux") {
    throw new SconceError("usage", `executables are compiled on Linux, not on ${process.platform}`);
  }
  if (!existsSync(addonPath)) {
    throw new SconceError(
      "native_unavailable",
      `the native addon is not built (${addonPath} is missing): run \`npm run setup\``,
    );
  }
  const libraries = (await linkedTo(addonPath)).filter(
    ({ name, isLoader }) => !isLoader && !systemLibraries.test(name),
  );
  const libtorch = libraries.map(({ name, path }) => {
    if (path === undefined) throw new SconceError("native_unavailable", `${name} is not found: run \`npm run setup\``);
    return { name, content: path };
  });
  const core = libtorch.find(({ name }) => name === "libtorch_cpu.so");
  if (core === undefined) throw new SconceError("native_unavailable", "libtorch is not found: run `npm run setup`");
  const folder = dirname(core.content);
  const torch = libtorchBuild(dirname(folder));
  if (torch === undefined)
    throw new SconceError("native_unavailable", `the version of libtorch is not found in ${folder}`);
  return {
    torch,
    addon: { name: addonName, content: withoutAbsolutePaths(await Bun.file(addonPath).bytes()) },
    libtorch: libtorch.sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

/** Whether libtorch has parts for GPUs, which the addon loads by itself, with gigabytes that they need. */
export function isForGpus({ libtorch }: LibraryFiles): boolean {
  return libtorch.some(
    ({ content }) => typeof content === "string" && existsSync(join(dirname(content), "libtorch_cuda.so")),
  );
}

/**
 * The addon looks for libtorch beside itself, then where it was compiled: a place that means nothing elsewhere, and would make another
 * executable of the same sources in another checkout.
 */
function withoutAbsolutePaths(addon: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const bytes = Buffer.from(addon);
  const origin = "$ORIGIN:/";
  for (let at = bytes.indexOf(origin); at >= 0; at = bytes.indexOf(origin, at + 1)) {
    bytes.fill(0, at + "$ORIGIN".length, bytes.indexOf(0, at));
  }
  return new Uint8Array(bytes);
}
