/** The whole command line as one executable: its sources are inside, and its libraries or beside it; models come from the store. */
import { main as commandLine } from "../cli.ts";
import { setLibraries } from "../command-line/model-source.ts";
import { programName } from "../command-line/program-name.ts";
import type { CommandLineContents } from "../compile/contents.ts";
import { setSources } from "../compile/sources.ts";
import { prepareLibraries, unpackLibraries } from "./prepare-libraries.ts";
import { unpackSources } from "./unpack-sources.ts";

/** Runs one command line, without the executable's name. */
export async function main(contents: CommandLineContents, argv: readonly string[]): Promise<void> {
  const options = { cacheDir: undefined, libtorch: undefined };
  // Those beside it are found as those of a package are.
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
