/** An error as it is told to another process: its code and message. */
import { z } from "zod";
import { errorCodes, messageOf, SconceError } from "../errors.ts";

/** Without a code where something else than a SconceError was thrown. */
export const toldError = z.object({ code: z.enum(errorCodes).optional(), message: z.string() });
export type ToldError = z.infer<typeof toldError>;

export function tellError(error: unknown): ToldError {
  return error instanceof SconceError ? { code: error.code, message: error.message } : { message: messageOf(error) };
}
