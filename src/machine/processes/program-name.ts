/** The command that users type, for help and copyable hints; `scripts/sconce` sets it in a checkout. */
import { isExecutable } from "./program.ts";

export const programName = process.env.SCONCE_PROGRAM ?? typedName();

function typedName(): string {
  if (isExecutable) return process.argv0;
  // `bun run` and `bunx` put a project's commands on the PATH only while they run.
  return Bun.which("sconce")?.includes("/node_modules/.bin/") === true ? "bunx sconce" : "sconce";
}
