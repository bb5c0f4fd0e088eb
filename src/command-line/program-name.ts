/** What people type to get here, for help and hints that they can paste; `scripts/sconce` says it of a checkout. */
import { isExecutable } from "../processes/program.ts";

export const programName = process.env.SCONCE_PROGRAM ?? typedName();

function typedName(): string {
  if (isExecutable) return process.argv0;
  // `bun run` and `bunx` put a project's own commands on the PATH for the time they run, and no longer.
  return Bun.which("sconce")?.includes("/node_modules/.bin/") === true ? "bunx sconce" : "sconce";
}
