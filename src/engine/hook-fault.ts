/** Errors that the author's functions throw: full text for the author and the operator, short text for clients. */

import { InputError } from "../author/input-error.ts";
import { type ErrorCode, MODEL_FAILED, messageOf, SconceError } from "../base/errors.ts";

type Hook = "preprocess" | "predict" | "begin" | "step" | "postprocessPart" | "postprocess" | "demo";

/** Error codes of sconce for mistakes in the author's function, whose text clients do not see. */
const wrongCalls: ReadonlySet<ErrorCode> = new Set(["tensor_invalid", "item_failed"]);

/**
 * Wraps an error of an author's function. Clients read the message of an InputError, and the client message of a
 * SconceError with a code not in `wrongCalls`. For every other error, clients read only that the model failed.
 * @param code error code of the result, if the error is neither an InputError nor a SconceError
 */
export function hookError(error: unknown, hook: Hook, code: ErrorCode = "item_failed"): SconceError {
  const noun = hook === "demo" ? "the demo" : hook;
  const clientMessage = `${MODEL_FAILED} in ${noun}`;
  if (error instanceof InputError) {
    return new SconceError("input_refused", error.message, { cause: error, field: error.field });
  }
  if (error instanceof SconceError) {
    if (!wrongCalls.has(error.code) || error.clientMessage !== error.message) return error;
    return new SconceError(error.code, error.message, { cause: error, clientMessage });
  }
  return new SconceError(code, `${noun} failed: ${messageOf(error)}`, { cause: error, clientMessage });
}
