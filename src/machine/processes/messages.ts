/** Messages between a supervisor and its child, as JSON. */
import { z } from "zod";
import { logFormats, logLevels } from "../../base/log.ts";
import { toldError } from "./told-error.ts";

/** From the supervisor. The first message is `start`. */
export const toChild = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("start"),
    /** JSON for the role. */
    start: z.unknown().optional(),
    supervisorPid: z.int(),
    log: z.object({ level: z.enum(logLevels), format: z.enum(logFormats) }),
  }),
  z.object({ kind: z.literal("message"), message: z.unknown().optional() }),
  /** Asks how long the oldest batch has been running. */
  z.object({ kind: z.literal("ask") }),
  z.object({ kind: z.literal("stop") }),
]);
export type ToChild = z.infer<typeof toChild>;

export const fromChild = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ready"), told: z.unknown().optional() }),
  /** The process now answers `ask`. */
  z.object({ kind: z.literal("set-up") }),
  z.object({ kind: z.literal("failed"), error: toldError }),
  z.object({ kind: z.literal("message"), message: z.unknown().optional() }),
  z.object({ kind: z.literal("running"), runningForMs: z.number().nonnegative() }),
]);
export type FromChild = z.infer<typeof fromChild>;
