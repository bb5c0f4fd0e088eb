/** The command that users type, for help and for hints that users copy. In a checkout, `scripts/sconce` sets it. */
import { isExecutable } from "./program.ts";

export const programName = process.env.SCONCE_PROGRAM ?? typedName();

function typedName(): string {
  if (isExecutable) return process.argv0;
  // A `sconce` in node_modules is on the PATH only while `bun run` or `bunx` runs, so users type `bunx sconce`.
  return Bun.which("sconce")?.includes("/node_modules/.bin/") === true ? "bunx sconce" : "sconce";
}
