/** Which files the addon needs at run time, beyond the C and C++ libraries that every system has. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { SconceError } from "../errors.ts";
import { findAddon } from "../libraries/find-addon.ts";
import { libtorchBuild } from "../libraries/libtorch-build.ts";
import { linkedTo } from "../libraries/linked-libraries.ts";
import { addonName } from "../libraries/pack.ts";
import { type NativeLocation, nativeLocation } from "../native/addon.ts";

export interface LibraryFile {
  /** As it is looked for by what needs it. */
  readonly name: string;
  readonly path: string;
}

export interface LibraryFiles {
  /** `2.13.0+cpu` */
  readonly torch: string;
  readonly addon: LibraryFile;
  /** libtorch and what comes with it. */
  readonly libtorch: readonly LibraryFile[];
}

/** glibc, and the C++ runtime: what "nothing but glibc and libstdc++" is. */
const systemLibraries =
  /^(linux-vdso|ld-linux[-\w]*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so/;

/** @throws SconceError `native_unavailable` where the addon is not built or its libraries are not found */
export async function libraryFiles(): Promise<LibraryFiles> {
  if (process.platform !== "linux") {
    throw new SconceError("usage", `executables are compiled on Linux, not on ${process.platform}`);
  }
  const own = nativeLocation();
  if (own?.unpacked !== undefined) return unpackedFiles(dirname(own.path), own.unpacked);
  const addon = findAddon();
  const libraries = (await linkedTo(addon.path, join(addon.libtorch, "lib"))).filter(
    ({ name, isLoader }) => !isLoader && !systemLibraries.test(name),
  );
  const libtorch = libraries.map(({ name, path }) => {
    if (path === undefined) throw new SconceError("native_unavailable", `${name} of libtorch is not found`);
    return { name, path };
  });
  const torch = libtorchBuild(addon.libtorch);
  if (torch === undefined) {
    throw new SconceError("native_unavailable", `the version of libtorch is not found in ${addon.libtorch}`);
  }
  return {
    torch,
    addon: { name: addonName, path: addon.path },
    libtorch: libtorch.sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

/** Of an executable: what it was compiled with lies together, and is no more than what is needed. */
function unpackedFiles(folder: string, { torch, pack }: NonNullable<NativeLocation["unpacked"]>): LibraryFiles {
  const [addon, ...libtorch] = pack.files.map(({ name }) => ({ name, path: join(folder, name) }));
  if (addon?.name !== addonName) throw new SconceError("native_unavailable", "this executable has no addon inside");
  return { torch, addon, libtorch };
}

/** Whether libtorch has parts for GPUs, which the addon loads by itself, with gigabytes that they need. */
export function isForGpus({ libtorch }: LibraryFiles): boolean {
  return libtorch.some(({ path }) => existsSync(join(dirname(path), "libtorch_cuda.so")));
}
