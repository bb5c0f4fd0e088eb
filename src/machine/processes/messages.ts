/** What a supervisor and its child tell each other, one JSON object a message. */
import { z } from "zod";
import { logFormats, logLevels } from "../../base/log.ts";
import { toldError } from "./told-error.ts";

/** From the supervisor; the first one is `start`. */
export const toChild = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("start"),
    /** What the role gets. */
    start: z.unknown().optional(),
    supervisorPid: z.int(),
    log: z.object({ level: z.enum(logLevels), format: z.enum(logFormats) }),
  }),
  z.object({ kind: z.literal("message"), message: z.unknown().optional() }),
  /** How long has the oldest batch been running? */
  z.object({ kind: z.literal("ask") }),
  z.object({ kind: z.literal("stop") }),
]);
export type ToChild = z.infer<typeof toChild>;

export const fromChild = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ready"), told: z.unknown().optional() }),
  /** The process answers questions from now on. */
  z.object({ kind: z.literal("set-up") }),
  z.object({ kind: z.literal("failed"), error: toldError }),
  z.object({ kind: z.literal("message"), message: z.unknown().optional() }),
  z.object({ kind: z.literal("running"), runningForMs: z.number().nonnegative() }),
]);
export type FromChild = z.infer<typeof fromChild>;
