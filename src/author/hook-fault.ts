/**
 * Adds the likely cause to a TypeError of the author's code. JavaScript's message names neither the tensor nor the
 * cause.
 */
import { messageOf } from "../base/errors.ts";

interface Hook {
  readonly name: "preprocess" | "predict" | "postprocess";
  /** Names of the tensors that the function receives. */
  readonly given: readonly string[];
}

/** `undefined is not an object (evaluating 'scores.data')` */
const ofUndefined = /^undefined is not an object \(evaluating '([\w.$]+)'\)/;
const parts = ["data", "shape", "dtype"];

/** The message of an error from a hook; a TypeError also gets its likely cause. */
export function hookMessage(error: unknown, hook: Hook): string {
  const message = messageOf(error);
  const cause = error instanceof TypeError ? likelyCause(message, hook) : undefined;
  return cause === undefined ? message : `${message}; ${cause}`;
}

function likelyCause(message: string, { name, given }: Hook): string | undefined {
  if (name === "predict" && /is not iterable/.test(message)) {
    return "call gives a dict or a named tuple as an object: read its fields by name; and it gives a promise: await it";
  }
  const path = ofUndefined.exec(message)?.[1]?.split(".");
  if (path === undefined) return undefined;
  const kind = name === "postprocess" ? "output" : "input";
  const wrong = parts.includes(path.at(-1) ?? "") ? path.at(-2) : undefined;
  if (name !== "preprocess" && wrong !== undefined && !given.includes(wrong)) {
    const fault = `the model declares no ${kind} "${wrong}" under tensors, it declares ${given.join(", ")}`;
    return name === "predict" ? `${fault}; or an await is missing before the call that made ${wrong}` : fault;
  }
  return `is an await missing before what made ${path.at(-2) ?? path[0]}?`;
}
