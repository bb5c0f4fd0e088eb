/** An error as it is told to another process: its code and message. */
import { z } from "zod";
import { type ErrorCode, messageOf, SconceError } from "../errors.ts";

/** Every code: one that is missing here does not compile. */
const codes = {
  usage: true,
  model_invalid: true,
  model_not_found: true,
  store_busy: true,
  store_unwritable: true,
  store_corrupt: true,
  registry_unavailable: true,
  registry_denied: true,
  registry_refused: true,
  registry_corrupt: true,
  image_invalid: true,
  weights_invalid: true,
  tensor_invalid: true,
  run_failed: true,
  out_of_memory: true,
  device_unavailable: true,
  target_unreachable: true,
  session_closed: true,
  native_unavailable: true,
  cache_unusable: true,
  file_refused: true,
  file_unavailable: true,
  file_too_large: true,
  file_invalid: true,
  output_invalid: true,
  item_failed: true,
  canceled: true,
  timed_out: true,
  queue_full: true,
  not_ready: true,
  address_in_use: true,
  processes_unavailable: true,
} satisfies Record<ErrorCode, true>;

/** Without a code where something else than a SconceError was thrown. */
export const toldError = z.object({
  code: z.string().refine(isErrorCode, "must be an error code").optional(),
  message: z.string(),
});
export type ToldError = z.infer<typeof toldError>;

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(codes, text);
}

export function tellError(error: unknown): ToldError {
  return error instanceof SconceError ? { code: error.code, message: error.message } : { message: messageOf(error) };
}
