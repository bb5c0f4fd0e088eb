/** The command line that starts this program again. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** On Linux, a path to this process's executable file, even if the file was replaced or deleted. */
const self = "/proc/self/exe";

/** Whether this program is a compiled executable with embedded modules. */
export const isExecutable = Bun.main.startsWith("/$bunfs/");

/** The command line of this program without arguments: the executable, or Bun and the main module. */
export function thisProgram(): readonly string[] {
  const executable = existsSync(self) ? self : process.execPath;
  if (isExecutable) return [executable];
  // `--no-install` repeats a setting of the checkout's bunfig.toml, which Bun reads only in the current folder.
  return [executable, "--no-install", fileURLToPath(new URL("../../main.ts", import.meta.url))];
}
