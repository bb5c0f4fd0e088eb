/**
 * Starts the command line of this process again, for an upgrade of the server. The program's file may have changed
 * meanwhile.
 */
import { closeSync, openSync } from "node:fs";
import { isExecutable } from "./program.ts";

/**
 * Environment variable of servers that a container's first process started. The container ends with the last server.
 */
const FOLLOWED = "SCONCE_FOLLOWED";

/**
 * Asks the first process of the container to start the command line. @returns false if that process did not start this
 * server
 */
export function askFirstProcess(): boolean {
  return process.ppid === 1 && process.env[FOLLOWED] === "1" && process.kill(1, "SIGHUP");
}

export function startAgain(): Bun.Subprocess {
  const script = isExecutable ? [] : ["--no-install", Bun.main];
  return Bun.spawn([process.execPath, ...script, ...process.argv.slice(2)], {
    argv0: "sconce",
    env: process.pid === 1 ? { ...process.env, [FOLLOWED]: "1" } : process.env,
    stdio: ["ignore", "inherit", "inherit"],
    // The new server runs on when this process ends.
    detached: true,
  });
}

/** Whether this process has a terminal: then a SIGHUP may mean the end of the terminal session. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}
