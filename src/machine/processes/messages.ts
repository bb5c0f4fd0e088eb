/** JSON messages between a supervisor and its child process. */
import { z } from "zod";
import { messageWithLine } from "../../base/author-line.ts";
import { codedError, errorCodes, messageOf, SconceError } from "../../base/errors.ts";
import { logFormats, logLevels } from "../../base/log.ts";
import { questionMessages } from "./questions.ts";

/** Messages from the supervisor. The first one is `start`. */
export const toChild = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("start"),
    /** JSON value that the role gets. */
    start: z.unknown().optional(),
    supervisorPid: z.int(),
    log: z.object({ level: z.enum(logLevels), format: z.enum(logFormats), hasTimes: z.boolean().optional() }),
  }),
  ...questionMessages,
  z.object({ kind: z.literal("stop") }),
]);
export type ToChild = z.infer<typeof toChild>;

/** An error in a child process. A SconceError has a code, and its message names the line of the author's code. */
const errorReport = z.object({
  code: z.enum(errorCodes).optional(),
  message: z.string(),
  /** The message for clients; undefined if they may read `message`. */
  clientMessage: z.string().optional(),
});

export function reportOf(error: unknown): z.infer<typeof errorReport> {
  const coded = codedError(error);
  const clientMessage = coded.clientMessage === coded.message ? undefined : coded.clientMessage;
  return error instanceof SconceError
    ? { code: error.code, message: messageWithLine(error), clientMessage }
    : { message: messageOf(error), clientMessage };
}

export const fromChild = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ready"), info: z.unknown().optional() }),
  /** The child answers the watchdog from now on. */
  z.object({ kind: z.literal("set-up") }),
  z.object({ kind: z.literal("failed"), error: errorReport }),
  ...questionMessages,
]);
export type FromChild = z.infer<typeof fromChild>;
