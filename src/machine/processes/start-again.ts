/** Starts the command line of this process again, for an upgrade. The file of the program is read anew. */
import { closeSync, openSync } from "node:fs";
import { isExecutable } from "./program.ts";

export function startAgain(): Bun.Subprocess {
  const script = isExecutable ? [] : ["--no-install", Bun.main];
  return Bun.spawn([process.execPath, ...script, ...process.argv.slice(2)], {
    argv0: "sconce",
    env: process.env,
    stdio: ["ignore", "inherit", "inherit"],
    // The end of this process must not end it.
    detached: true,
  });
}

/** Whether the end of a terminal session may have sent a SIGHUP. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}
