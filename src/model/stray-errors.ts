/** Errors that the model's code let nobody hear of. */
import { log } from "../log.ts";

/** A promise or a timer that the model's code forgot must not end the server for everybody. */
export function surviveStrayErrors(): void {
  process.on("unhandledRejection", (error) => log.error("Unhandled rejection in the model's code:", error));
  process.on("uncaughtException", (error) => log.error("Uncaught exception in the model's code:", error));
}
