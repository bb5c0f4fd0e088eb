/** The start of an executable: unpacks its addon and libtorch, before a command needs them. */
import { dirname, join } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { cacheLocation } from "../../machine/libtorch/cache-folder.ts";
import { loadExternalLibtorch } from "../../machine/libtorch/external-libtorch.ts";
import { LibraryCache } from "../../machine/libtorch/library-cache.ts";
import { type NativeLocation, setNativeLocation } from "../../machine/libtorch/native-location.ts";
import { addonName, type LibraryPack, unpackedSize } from "../../machine/libtorch/pack.ts";
import { makeRunFolder } from "../../machine/processes/run-folder.ts";
import type { ProgramContents } from "../../package/executable/contents.ts";

/**
 * Unpacks or finds the libraries of an executable, for this process. @throws SconceError `cache_unusable`,
 * `native_unavailable`
 */
export async function prepareLibraries({ libraries, torch }: ProgramContents): Promise<void> {
  setNativeLocation(await locate(libraries, torch));
}

/**
 * Unpacks the libraries for another process, without loading them.
 * @throws SconceError `cache_unusable`, `native_unavailable`
 */
export async function unpackLibraries({ libraries }: ProgramContents): Promise<void> {
  if (libraries !== "beside") await unpack(libraries, await libraryCache());
}

async function locate(libraries: ProgramContents["libraries"], torch: string): Promise<NativeLocation> {
  if (libraries === "beside") {
    const path = join(dirname(process.execPath), "lib", addonName);
    return { path, fix: "restore the folder lib beside the executable" };
  }
  if (!libraries.hasLibtorch) loadExternalLibtorch(torch);
  const folder = await unpack(libraries, await libraryCache());
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
async function libraryCache(): Promise<LibraryCache> {
  const location = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (location !== undefined) return new LibraryCache(location);
  const { path } = makeRunFolder();
  process.env.SCONCE_CACHE_DIR = path;
  return new LibraryCache(path);
}

async function unpack(pack: LibraryPack, cache: LibraryCache): Promise<string> {
  return cache.unpacked(pack, {
    unpacking: (folder) => log.info(`Unpacking libraries once into ${folder} (${formatBytes(unpackedSize(pack))})`),
    waiting: (folder) => log.info(`Waiting for another process to unpack libraries into ${folder}`),
  });
}
