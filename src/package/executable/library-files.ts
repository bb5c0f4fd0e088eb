/** Lists the files that the native addon needs at run time, except the system's C and C++ libraries. */
import { dirname, join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { cpuLibtorch, isForGpus } from "../../machine/libtorch/cpu-libtorch.ts";
import { findAddon } from "../../machine/libtorch/find-addon.ts";
import { libtorchBuild } from "../../machine/libtorch/libtorch-build.ts";
import { linkedTo } from "../../machine/libtorch/linked-libraries.ts";
import { type NativeLocation, nativeLocation } from "../../machine/libtorch/native-location.ts";
import { addonName } from "../../machine/libtorch/pack.ts";

export interface LibraryFile {
  /** The library's soname. */
  readonly name: string;
  readonly path: string;
}

export interface LibraryFiles {
  /** Version of libtorch, for example `2.13.0+cpu`. */
  readonly torch: string;
  readonly addon: LibraryFile;
  /** libtorch and the libraries that it needs. */
  readonly libtorch: readonly LibraryFile[];
}

/** Names of glibc's libraries and the C++ runtime, which every supported system has. */
export const systemLibraries =
  /^(linux-vdso|ld-linux[-\w]*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so/;

/**
 * Finds the addon and its libraries.
 * @param folder another libtorch, of the release for which the addon was compiled
 * @throws SconceError `usage` outside Linux; `native_unavailable` if the addon is not built, or a library is missing
 */
export async function libraryFiles(folder?: string): Promise<LibraryFiles> {
  if (process.platform !== "linux") {
    throw new SconceError("usage", `executables are compiled on Linux, not on ${process.platform}`);
  }
  const own = nativeLocation();
  if (own?.unpacked !== undefined) return unpackedFiles(dirname(own.path), own.unpacked);
  const addon = findAddon();
  const root = folder ?? addon.libtorch;
  const libraries = (await linkedTo(addon.path, join(root, "lib"))).filter(
    ({ name, isLoader }) => !isLoader && !systemLibraries.test(name),
  );
  const libtorch = libraries.map(({ name, path }) => {
    if (path === undefined) throw new SconceError("native_unavailable", `${name} of libtorch is not found`);
    return { name, path };
  });
  const torch = libtorchBuild(root);
  if (torch === undefined) {
    throw new SconceError("native_unavailable", `the version of libtorch is not found in ${root}`);
  }
  return {
    torch,
    addon: { name: addonName, path: addon.path },
    libtorch: libtorch.sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

/** Lists the libraries that this executable has unpacked into `folder`. */
function unpackedFiles(folder: string, { torch, pack }: NonNullable<NativeLocation["unpacked"]>): LibraryFiles {
  const [addon, ...libtorch] = pack.files.map(({ name }) => ({ name, path: join(folder, name) }));
  if (addon?.name !== addonName) throw new SconceError("native_unavailable", "this executable contains no addon");
  return { torch, addon, libtorch };
}

/** The files for a program that contains libtorch, which is always for CPUs. @throws SconceError as `libraryFiles` */
export async function cpuLibraryFiles(): Promise<LibraryFiles> {
  const files = await libraryFiles();
  return hasGpuLibraries(files) ? libraryFiles(await cpuLibtorch(files.torch)) : files;
}

/** Whether libtorch has CUDA libraries. They need gigabytes of further libraries, so they are not packed. */
export function hasGpuLibraries({ libtorch }: LibraryFiles): boolean {
  return libtorch.some(({ path }) => isForGpus(dirname(path)));
}
