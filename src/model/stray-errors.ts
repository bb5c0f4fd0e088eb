/** Errors that nobody catches: the model's are logged, and sconce's end the process. */
import { SconceError } from "../errors.ts";
import { log } from "../log.ts";
import { logLimit } from "../log-limit.ts";
import { exitProcess } from "../processes/exit.ts";
import { authorLine } from "./author-line.ts";

/** A promise or a timer that the model's code forgets must not end the server. A fault of sconce leaves an unknown state, so the process ends. */
export function surviveStrayErrors(): void {
  const handle = (what: string) => (error: unknown) => {
    if (isOwnFault(error)) {
      log.error(`${what} in sconce, which ends this process:`, error);
      exitProcess(1);
    }
    const where = authorLine(error) === undefined ? "" : " in the model's code";
    logLimit.write(what, (...more) => log.error(`${what}${where}:`, error, ...more));
  };
  process.on("unhandledRejection", handle("Unhandled rejection"));
  process.on("uncaughtException", handle("Uncaught exception"));
}

/** A line of a stack in a file of this program, or of its executable. */
const ownFrame = /^ +at (?:.* \()?\/[^():]+\.[cm]?[jt]sx?:\d+/m;

/**
 * Whether sconce's code alone threw an error. A SconceError has an expected cause, such as a broken picture whose promise the model's code forgets. An
 * error without frames comes from the system, for example from a `fetch` that the model's code forgets.
 */
export function isOwnFault(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof SconceError || authorLine(error) !== undefined) return false;
  return ownFrame.test(error.stack ?? "");
}
