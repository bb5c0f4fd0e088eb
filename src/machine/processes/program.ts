/** How this program is started once more. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Linux: the file that this process runs, also when another one has taken its place or it is gone. */
const self = "/proc/self/exe";

/** Whether this is a compiled executable, whose modules Bun alone knows where to find. */
export const isExecutable = Bun.main.startsWith("/$bunfs/");

/** The command line up to its arguments: of a compiled executable the file alone, of a checkout Bun and its main module. */
export function thisProgram(): readonly string[] {
  const executable = existsSync(self) ? self : process.execPath;
  if (isExecutable) return [executable];
  // In another folder the bunfig.toml of this checkout is not read.
  return [executable, "--no-install", fileURLToPath(new URL("../../main.ts", import.meta.url))];
}
