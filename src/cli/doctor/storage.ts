/** Checks of the folders that serving reads and writes, for `sconce doctor`. */
import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { messageOf } from "../../base/errors.ts";
import { storeLocation } from "../../machine/files/location.ts";
import { cacheLocation } from "../../machine/libtorch/cache-folder.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { credentialFiles } from "../../package/registry/credentials.ts";
import { ModelStore } from "../../package/store/store.ts";
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

export async function models(): Promise<Check> {
  const build = `build one with \`${programName} build DIR\``;
  try {
    const all = await new ModelStore().list();
    const damaged = all.filter(({ problem }) => problem !== undefined);
    if (damaged.length > 0) {
      return warning("models", `${all.length}, ${damaged.length} of them damaged`, `see \`${programName} models\``);
    }
    return all.length === 0 ? warning("models", "none", build) : ok("models", `${all.length}`);
  } catch (error) {
    return fault("models", `cannot be listed: ${messageOf(error)}`, "name another store with SCONCE_HOME");
  }
}

/** Checks the cache directory, into which only executables unpack libraries. */
export function cache(): Check {
  const fix = "name a folder with SCONCE_CACHE_DIR; executables unpack libtorch into it";
  const folder = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (folder === undefined) return warning("cache", "none: this user has no home", fix);
  return folderState(folder).isWritable ? ok("cache", folder) : warning("cache", `${folder} cannot be written`, fix);
}

/** Lists the files with credentials, but never the credentials. */
export function credentials(): Check {
  const files = credentialFiles().filter((file) => existsSync(file));
  return ok("registries", files.length === 0 ? "no credentials" : `credentials in ${files.join(", ")}`);
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
