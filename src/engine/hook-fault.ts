/** Errors that the author's functions throw: full text for the author and the operator, short text for clients. */

import { InputError } from "../author/input-error.ts";
import { type ErrorCode, MODEL_FAILED, messageOf, SconceError } from "../base/errors.ts";

interface Hook {
  readonly name: "preprocess" | "predict" | "begin" | "step" | "postprocessPart" | "postprocess" | "demo";
  readonly given: readonly string[];
}

/** Error codes of sconce for mistakes in the author's function, whose text clients do not see. */
const wrongCalls: ReadonlySet<ErrorCode> = new Set(["tensor_invalid", "item_failed"]);

/**
 * Wraps an error of an author's function. Clients read the message of an InputError, and the client message of a
 * SconceError with a code not in `wrongCalls`. For every other error, clients read only that the model failed.
 * @param code error code of the result, if the error is neither an InputError nor a SconceError
 */
export function hookError(error: unknown, hook: Hook, code: ErrorCode = "item_failed"): SconceError {
  const noun = hook.name === "demo" ? "the demo" : hook.name;
  const clientMessage = `${MODEL_FAILED} in ${noun}`;
  if (error instanceof InputError) return inputRefused(error);
  if (error instanceof SconceError) {
    if (!wrongCalls.has(error.code) || error.clientMessage !== error.message) return error;
    return new SconceError(error.code, error.message, { cause: error, clientMessage });
  }
  const message = `${noun} failed: ${hookMessage(error, hook)}`;
  return new SconceError(code, message, { cause: error, clientMessage });
}

function inputRefused(error: InputError): SconceError {
  return new SconceError("input_refused", error.message, { cause: error, field: error.field });
}

/**
 * Matches JavaScriptCore's message for a missing tensor, such as `undefined is not an object (evaluating
 * 'scores.data')`.
 */
const ofUndefined = /^undefined is not an object \(evaluating '([\w.$]+)'\)/;
const parts = ["data", "shape", "dtype"];

/**
 * The message of an error from an author's function. For a TypeError, adds the likely cause: an undeclared tensor or a
 * missing `await`.
 */
export function hookMessage(error: unknown, hook: Hook): string {
  const message = messageOf(error);
  const cause = error instanceof TypeError && hook.name !== "demo" ? likelyCause(message, hook) : undefined;
  return cause === undefined ? message : `${message}; ${cause}`;
}

function likelyCause(message: string, { name, given }: Hook): string | undefined {
  const isCaller = name === "predict" || name === "begin" || name === "step";
  if (isCaller && /is not iterable/.test(message)) {
    return "call returns a promise: await it; a dict or a named tuple becomes an object: read its fields by name";
  }
  const path = ofUndefined.exec(message)?.[1]?.split(".");
  if (path === undefined) return undefined;
  const kind = name.startsWith("postprocess") ? "output" : "input";
  const wrong = parts.includes(path.at(-1) ?? "") ? path.at(-2) : undefined;
  if (name !== "preprocess" && name !== "step" && wrong !== undefined && !given.includes(wrong)) {
    const fault = `the model declares no ${kind} "${wrong}" under tensors, it declares ${given.join(", ")}`;
    return isCaller ? `${fault}; or an await is missing before the call that made ${wrong}` : fault;
  }
  return `is an await missing before the call that made ${path.at(-2) ?? path[0]}?`;
}
