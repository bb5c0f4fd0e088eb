/** Handles uncaught errors: an error of model code is logged, an error of sconce ends the process. */

import { authorLine } from "../base/author-line.ts";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { exitProcess } from "../machine/processes/exit.ts";

/**
 * Keeps the server alive after a rejected promise or failed timer in the model's code. After a fault in sconce the
 * state is unknown, so the process ends.
 */
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

/** Matches a stack frame with the absolute path of a source file. Stack frames of model code have relative paths. */
const ownFrame = /^ +at (?:.* \()?\/[^():]+\.[cm]?[jt]sx?:\d+/m;

/**
 * Whether the error is a fault of sconce's code. A SconceError is none: it has an expected cause, such as a broken
 * image. An error without stack frames comes from the system, for example from a `fetch` that model code never awaits.
 */
export function isOwnFault(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof SconceError || authorLine(error) !== undefined) return false;
  return ownFrame.test(error.stack ?? "");
}
