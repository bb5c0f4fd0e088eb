/** Errors that the model's code let nobody hear of. */
import { log } from "../log.ts";
import { logLimit } from "../log-limit.ts";

/** A promise or a timer that the model's code forgot must not end the server for everybody. */
export function surviveStrayErrors(): void {
  const tell = (what: string) => (error: unknown) =>
    logLimit.write(what, (...more) => log.error(`${what} in the model's code:`, error, ...more));
  process.on("unhandledRejection", tell("Unhandled rejection"));
  process.on("uncaughtException", tell("Uncaught exception"));
}
