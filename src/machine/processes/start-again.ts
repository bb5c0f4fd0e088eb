/**
 * Starts the command line of this process again, for an upgrade of the server. The program's file may have changed
 * meanwhile.
 */
import { closeSync, openSync } from "node:fs";
import { Background } from "./background.ts";
import { isExecutable } from "./program.ts";

/** Environment variable of a server that the first process of a container (id 1) started for an upgrade. */
const FOLLOWED = "SCONCE_FOLLOWED";

/** Environment variable with the id of the process that started this server for an upgrade. */
const STARTED = "SCONCE_STARTED_AGAIN";

/**
 * Asks the first process of the container to start the command line. @returns false if that process did not start this
 * server
 */
export function askFirstProcess(): boolean {
  return isFollowed() && process.kill(1, "SIGHUP");
}

/**
 * Starts the command line again. If the system allows it, the new process uses only time on cores that no other thread
 * wants.
 */
export function startAgain(): Bun.Subprocess {
  const script = isExecutable ? [] : ["--no-install", Bun.main];
  const followed = process.pid === 1 ? { [FOLLOWED]: "1" } : {};
  return Background.start(() =>
    Bun.spawn([process.execPath, ...script, ...process.argv.slice(2)], {
      argv0: "sconce",
      env: { ...process.env, ...followed, [STARTED]: String(process.pid) },
      stdio: ["ignore", "inherit", "inherit"],
      // The new server runs on when this process ends.
      detached: true,
    }),
  );
}

/** Id of the process that started this server for an upgrade; undefined if an operator started it. */
export function starterPid(): number | undefined {
  const pid = Number(process.env[STARTED] ?? Number.NaN);
  return Number.isInteger(pid) ? pid : undefined;
}

/** Whether the process with this id may start newer versions of this server. */
export function startsNewer(pid: number | undefined): boolean {
  return pid === process.pid || (pid === 1 && isFollowed());
}

/** Whether the first process of a container started this server, and waits for its end. */
function isFollowed(): boolean {
  return process.ppid === 1 && process.env[FOLLOWED] === "1";
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
