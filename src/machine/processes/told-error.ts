/** An error as it is told to another process: its code and message, with the line of the author's code. */
import { z } from "zod";
import { messageWithLine } from "../../base/author-line.ts";
import { errorCodes, messageOf, SconceError } from "../../base/errors.ts";

/** Without a code where something else than a SconceError was thrown. */
export const toldError = z.object({ code: z.enum(errorCodes).optional(), message: z.string() });
export type ToldError = z.infer<typeof toldError>;

export function tellError(error: unknown): ToldError {
  return error instanceof SconceError
    ? { code: error.code, message: messageWithLine(error) }
    : { message: messageOf(error) };
}
