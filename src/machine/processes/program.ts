/** The command line that starts this program again. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** On Linux, the file of this process, even if it was replaced or deleted. */
const self = "/proc/self/exe";

/** Whether this is a compiled executable, with its modules inside. */
export const isExecutable = Bun.main.startsWith("/$bunfs/");

/** The command line without arguments: the executable, or in a checkout Bun and the main module. */
export function thisProgram(): readonly string[] {
  const executable = existsSync(self) ? self : process.execPath;
  if (isExecutable) return [executable];
  // Bun reads the checkout's bunfig.toml only in its folder.
  return [executable, "--no-install", fileURLToPath(new URL("../../main.ts", import.meta.url))];
}
