/** Starts the command line of this process again, for an upgrade. The file of the program is read anew. */
import { closeSync, openSync } from "node:fs";
import { isExecutable } from "./program.ts";

/** Set for servers that the first process of a container started. The container ends with the last of them. */
const FOLLOWED = "SCONCE_FOLLOWED";

/** Lets the first process of a container start the command line. @returns false if this server is not below such a process */
export function askFirstProcess(): boolean {
  return process.ppid === 1 && process.env[FOLLOWED] === "1" && process.kill(1, "SIGHUP");
}

export function startAgain(): Bun.Subprocess {
  const script = isExecutable ? [] : ["--no-install", Bun.main];
  return Bun.spawn([process.execPath, ...script, ...process.argv.slice(2)], {
    argv0: "sconce",
    env: process.pid === 1 ? { ...process.env, [FOLLOWED]: "1" } : process.env,
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
