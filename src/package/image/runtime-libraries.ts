/** Finds the system libraries that a container image needs: glibc with its loader, and the C++ runtime. */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { type Architecture, architectures, ociArchitecture } from "../../base/platform-package.ts";
import { linkedTo, loaders } from "../../machine/libtorch/linked-libraries.ts";
import { systemLibraries } from "../executable/library-files.ts";

export interface RuntimeLibrary {
  /** Absolute path of the library in the container. */
  readonly path: string;
  /** Absolute path on this machine, without symbolic links. */
  readonly source: string;
}

/** Libraries that glibc loads with `dlopen` to look up hosts, so `ldd` does not list them. */
const nameServices = ["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"];

/**
 * Finds the system libraries to which `files` are linked, and the libraries of `nameServices`. In the image they get
 * paths in the C library's folder, which the loader always searches.
 * @param files executables and libraries, with their sonames
 * @throws SconceError `image_invalid` when a library is missing, or this machine's C library is not glibc
 */
export async function runtimeLibraries(
  files: readonly { readonly name: string; readonly path: string }[],
): Promise<RuntimeLibrary[]> {
  const shipped = new Set(files.map(({ name }) => name));
  const found = new Map<string, string>();
  const loaders = new Set<string>();
  for (const { path } of files) {
    for (const needed of await linkedTo(path)) {
      if (shipped.has(needed.name)) continue;
      if (needed.path === undefined) {
        throw new SconceError(
          "image_invalid",
          `${path} needs ${needed.name}, which this machine does not have; install it`,
        );
      }
      // The loader keeps its absolute path, because every executable contains this path.
      if (needed.isLoader) loaders.add(needed.path);
      else found.set(needed.name, needed.path);
    }
  }
  const libc = found.get("libc.so.6");
  if (libc === undefined || loaders.size === 0) {
    throw new SconceError(
      "image_invalid",
      "the programs of this machine are not linked to glibc; write the image on a machine with glibc",
    );
  }
  const folder = dirname(libc);
  for (const name of nameServices) if (existsSync(join(folder, name))) found.set(name, join(folder, name));
  return [
    ...[...loaders].map((path) => ({ path, source: realpathSync(path) })),
    ...[...found].map(([name, path]) => ({ path: join(folder, name), source: realpathSync(path) })),
  ].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Finds glibc and the C++ runtime for another architecture, in Debian's packages for cross compilers.
 * @throws SconceError `image_invalid` without them
 */
export function foreignRuntimeLibraries(arch: Architecture): RuntimeLibrary[] {
  const machine = `${architectures[arch]}-linux-gnu`;
  const folder = `/usr/${machine}/lib`;
  const isNeeded = (name: string) =>
    nameServices.includes(name) || (systemLibraries.test(name) && /\.so\.\d+$/.test(name));
  const names = existsSync(folder) ? readdirSync(folder).filter(isNeeded).sort() : [];
  if (!names.includes("libstdc++.so.6")) {
    const architecture = ociArchitecture(arch);
    throw new SconceError(
      "image_invalid",
      `${folder} has no C and C++ runtime for linux/${architecture}: apt install libc6-${architecture}-cross libstdc++6-${architecture}-cross`,
    );
  }
  return names.map((name) => {
    const path = name.startsWith("ld-linux") ? loaders[arch] : `/lib/${machine}/${name}`;
    return { path, source: realpathSync(join(folder, name)) };
  });
}
