/** Checks of the folders that serving reads and writes, for `sconce doctor`. */
import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { storeLocation } from "../../machine/files/location.ts";
import { cacheLocation } from "../../machine/libtorch/cache-folder.ts";
import { type Check, fault, ok, warning } from "./check.ts";

/** Bytes of disk space that a model with libtorch needs. Less free space causes a warning. */
const LITTLE_SPACE = 1024 ** 3;

/**
 * Checks the data directory with models and predictions. From a read-only directory, existing models can still be
 * served.
 */
export function data(): Check {
  const fix = "name another with SCONCE_HOME";
  const home = storeLocation();
  const state = folderState(home);
  if (!state.isWritable) {
    const found = `${home} cannot be written`;
    if (!state.isThere) return fault("data", found, fix);
    return warning("data", `${found}: nothing can be built, and predictions are kept in memory`, fix);
  }
  const found = `${home}, ${formatBytes(state.freeBytes)} free`;
  return state.freeBytes < LITTLE_SPACE ? warning("data", found, `make room, or ${fix}`) : ok("data", found);
}

/** Checks the cache directory, into which only executables unpack libraries. */
export function cache(): Check {
  const fix = "name a folder with SCONCE_CACHE_DIR; executables unpack libtorch into it";
  const folder = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (folder === undefined) return warning("cache", "none: this user has no home", fix);
  return folderState(folder).isWritable ? ok("cache", folder) : warning("cache", `${folder} cannot be written`, fix);
}

interface FolderState {
  readonly isThere: boolean;
  readonly isWritable: boolean;
  readonly freeBytes: number;
}

/** State of a folder. For a missing folder: of its nearest existing parent. */
function folderState(folder: string): FolderState {
  let nearest = folder;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  const { bavail, bsize } = statfsSync(nearest);
  const isFolder = statSync(nearest).isDirectory();
  const found = { isThere: isFolder && nearest === folder, freeBytes: bavail * bsize };
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK);
    return { ...found, isWritable: isFolder };
  } catch {
    return { ...found, isWritable: false };
  }
}
