/** Makes the addon and libtorch of an executable loadable. */
import { dirname, join } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { folderPath, openOption } from "../../base/option.ts";
import { Progress } from "../../base/progress.ts";
import { cacheLocation } from "../../machine/libtorch/cache-folder.ts";
import { loadExternalLibtorch } from "../../machine/libtorch/external-libtorch.ts";
import { LibraryCache } from "../../machine/libtorch/library-cache.ts";
import { type NativeLocation, setNativeLocation } from "../../machine/libtorch/native-location.ts";
import { addonName, type LibraryPack, unpackedSize } from "../../machine/libtorch/pack.ts";
import { makeRunFolder } from "../../machine/processes/run-folder.ts";
import type { ProgramContents } from "../../package/executable/contents.ts";

/** Options of executables that unpack libraries. */
export const cacheOptions = {
  cacheDir: openOption<string>({
    description: "Folder in which libtorch is unpacked once",
    described: "sconce in your cache directory",
    ...folderPath,
  }),
} as const;

/** Options of executables that contain no libtorch. */
export const externalOptions = {
  libtorch: openOption<string>({
    description: "Folder of libtorch, with lib/ in it",
    described: "$LIBTORCH, otherwise the libtorch of Python's torch",
    ...folderPath,
  }),
} as const;

export interface LibraryOptions {
  readonly cacheDir: string | undefined;
  readonly libtorch: string | undefined;
}

/**
 * Unpacks or finds the libraries of an executable, for this process. @throws SconceError `cache_unusable`,
 * `native_unavailable`
 */
export async function prepareLibraries({ libraries, torch }: ProgramContents, options: LibraryOptions): Promise<void> {
  setNativeLocation(await locate(libraries, torch, options));
}

/**
 * Unpacks the libraries for another process, without loading them.
 * @throws SconceError `cache_unusable`, `native_unavailable`
 */
export async function unpackLibraries({ libraries }: ProgramContents, { cacheDir }: LibraryOptions): Promise<void> {
  if (libraries !== "beside") await unpack(libraries, await cacheFor(cacheDir));
}

async function locate(
  libraries: ProgramContents["libraries"],
  torch: string,
  { cacheDir, libtorch }: LibraryOptions,
): Promise<NativeLocation> {
  if (libraries === "beside") {
    const path = join(dirname(process.execPath), "lib", addonName);
    return { path, fix: "restore the folder lib beside the executable" };
  }
  if (!libraries.hasLibtorch) loadExternalLibtorch(libtorch, torch);
  const folder = await unpack(libraries, await cacheFor(cacheDir));
  return {
    path: join(folder, addonName),
    fix: `remove ${folder}, or name another folder with SCONCE_CACHE_DIR`,
    unpacked: { torch, pack: libraries },
  };
}

/**
 * The cache of unpacked libraries. For a user without a home it is a private temporary folder, which child processes
 * find by SCONCE_CACHE_DIR.
 */
async function cacheFor(cacheDir: string | undefined): Promise<LibraryCache> {
  const location = cacheLocation(cacheDir ?? process.env.SCONCE_CACHE_DIR);
  if (location !== undefined) return new LibraryCache(location);
  const { path } = makeRunFolder();
  process.env.SCONCE_CACHE_DIR = path;
  return new LibraryCache(path);
}

async function unpack(pack: LibraryPack, cache: LibraryCache): Promise<string> {
  const progress = new Progress({ verb: "Unpacking" });
  const unpacked = cache.unpacked(pack, {
    unpacking: (folder) => log.info(`Unpacking libraries once into ${folder} (${formatBytes(unpackedSize(pack))})`),
    waiting: (folder) => log.info(`Waiting for another process to unpack libraries into ${folder}`),
    progress: (doneBytes, totalBytes) => progress.update({ title: "libraries", doneBytes, totalBytes }),
  });
  return unpacked.finally(() => progress.end());
}
