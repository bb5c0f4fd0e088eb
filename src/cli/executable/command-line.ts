/**
 * Entry point of an executable with the full command line. Sources are inside, libraries inside or beside it; models
 * come from the store.
 */

import { programName } from "../../machine/processes/program-name.ts";
import type { CommandLineContents } from "../../package/executable/contents.ts";
import { setSources } from "../../package/executable/sources.ts";
import { setLibraries } from "../../package/model-source.ts";
import { main as commandLine } from "../cli.ts";
import { prepareLibraries, unpackLibraries } from "./prepare-libraries.ts";
import { unpackSources } from "./unpack-sources.ts";

/** Runs a command line without the executable's name. */
export async function main(contents: CommandLineContents, argv: readonly string[]): Promise<void> {
  const options = { cacheDir: undefined, libtorch: undefined };
  // Libraries beside the executable are found like those of an npm package.
  if (contents.libraries !== "beside") {
    setLibraries({
      unpackLibraries: () => unpackLibraries(contents, options),
      prepareLibraries: () => prepareLibraries(contents, options),
    });
  }
  setSources(() => unpackSources(contents.sources));
  process.env.SCONCE_PROGRAM = programName;
  await commandLine(argv);
}
