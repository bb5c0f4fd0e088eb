/** Converts errors of the native addon to SconceErrors with the same `code`. */
import { codeOf, errorCodes, messageOf, SconceError } from "../../base/errors.ts";

export async function withCodedErrors<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    throw coded(error);
  }
}

export function coded(error: unknown): SconceError {
  if (error instanceof SconceError) return error;
  const code = errorCodes.find((known) => known === codeOf(error));
  return new SconceError(code ?? "run_failed", messageOf(error), { cause: error });
}
