/** Unpacks the sources of an executable into the cache directory, once. */
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { cacheFault, cacheLocation, requirePrivate, secureFolder } from "../../machine/libtorch/cache-folder.ts";
import type { SourceArchive } from "../../package/executable/contents.ts";

/**
 * The folder's name contains the digest, and the folder gets its name only when it is complete.
 * @throws SconceError `cache_unusable`
 */
export async function unpackSources({ path, digest }: SourceArchive): Promise<string> {
  const location = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (location === undefined)
    throw new SconceError("cache_unusable", "there is no cache directory for the sources: set SCONCE_CACHE_DIR");
  const home = secureFolder(location);
  const folder = join(home, `sources-${digest.slice(0, 16)}`);
  let unfinished: string | undefined;
  try {
    if (!existsSync(folder)) {
      unfinished = mkdtempSync(join(home, ".sources-"));
      const archive = new Bun.Archive(await Bun.zstdDecompress(await Bun.file(path).bytes()));
      await archive.extract(unfinished);
      renameSync(unfinished, folder);
    }
  } catch (error) {
    // Another process finished first.
    if (!existsSync(folder)) throw cacheFault(error, home);
  } finally {
    if (unfinished !== undefined) rmSync(unfinished, { recursive: true, force: true });
  }
  requirePrivate(folder);
  return folder;
}
