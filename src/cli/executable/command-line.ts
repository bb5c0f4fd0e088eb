/**
 * Entry of an executable with all commands. It contains sconce's sources. Its libraries are embedded or in a folder
 * beside it. Models come from the store.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { setPixelsFile } from "../../base/platform-package.ts";
import { madeOnce } from "../../machine/files/made-once.ts";
import { cacheFault, cacheLocation, requirePrivate, secureFolder } from "../../machine/libtorch/cache-folder.ts";
import { programName } from "../../machine/processes/program-name.ts";
import type { CommandLineContents, SourceArchive } from "../../package/executable/contents.ts";
import { setSources } from "../../package/executable/sources.ts";
import { setLibraries } from "../../package/model-source.ts";
import { main as commandLine } from "../cli.ts";
import { prepareLibraries, unpackLibraries } from "./prepare-libraries.ts";

/** Runs a command. `argv` has no program name. */
export async function main(contents: CommandLineContents, argv: readonly string[]): Promise<void> {
  // Libraries beside the executable need no unpacking, and are found as in an npm package.
  if (contents.libraries !== "beside") {
    setLibraries({
      unpackLibraries: () => unpackLibraries(contents),
      prepareLibraries: () => prepareLibraries(contents),
    });
  }
  setPixelsFile(contents.pixels);
  setSources(() => unpackSources(contents.sources));
  process.env.SCONCE_PROGRAM = programName;
  await commandLine(argv);
}

/**
 * Unpacks the sources into the cache directory, if they are not there yet. The folder's name contains the digest.
 * @throws SconceError `cache_unusable`
 */
async function unpackSources({ path, digest }: SourceArchive): Promise<string> {
  const location = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (location === undefined)
    throw new SconceError("cache_unusable", "there is no cache directory for the sources: set SCONCE_CACHE_DIR");
  const home = secureFolder(location);
  const folder = join(home, `sources-${digest.slice(0, 16)}`);
  try {
    await madeOnce(folder, async (temporary) => {
      mkdirSync(temporary, { mode: 0o700 });
      const archive = new Bun.Archive(await Bun.zstdDecompress(await Bun.file(path).bytes()));
      await archive.extract(temporary);
    });
  } catch (error) {
    throw cacheFault(error, home);
  }
  requirePrivate(folder);
  return folder;
}
