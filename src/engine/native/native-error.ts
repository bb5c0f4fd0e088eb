/** Errors of the native addon, which carry a `code`. */
import { type ErrorCode, messageOf, SconceError } from "../../base/errors.ts";

/** Runs a task, and converts errors of the addon to SconceErrors. */
export async function withCodedErrors<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    throw coded(error);
  }
}

/** Converts an error of the addon to a SconceError. */
export function coded(error: unknown): SconceError {
  if (error instanceof SconceError) return error;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return new SconceError(isErrorCode(code) ? code : "run_failed", messageOf(error), { cause: error });
}

const nativeCodes = [
  "usage",
  "weights_invalid",
  "tensor_invalid",
  "run_failed",
  "out_of_memory",
  "device_unavailable",
  "session_closed",
] as const satisfies readonly ErrorCode[];

function isErrorCode(code: unknown): code is (typeof nativeCodes)[number] {
  return nativeCodes.some((known) => known === code);
}
