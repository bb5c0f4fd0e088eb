/** An error as JSON for another process: code, and message with the line of the author's code. */
import { z } from "zod";
import { messageWithLine } from "../../base/author-line.ts";
import { errorCodes, messageOf, SconceError } from "../../base/errors.ts";

/** Only a SconceError has a code. */
export const toldError = z.object({ code: z.enum(errorCodes).optional(), message: z.string() });
export type ToldError = z.infer<typeof toldError>;

export function tellError(error: unknown): ToldError {
  return error instanceof SconceError
    ? { code: error.code, message: messageWithLine(error) }
    : { message: messageOf(error) };
}
