/** Error answers in the format of OpenAI's API. */
import type { Context } from "hono";
import type { Fault } from "../../../base/errors.ts";
import { type Problem, type ProblemCode, ProblemError, type ProblemStatus, problemStatus } from "../../problem.ts";

interface FaultOptions {
  /** Name of the request's member that is wrong. */
  readonly param?: string;
  /** Code of the problem details, which decides the HTTP status. */
  readonly problem?: ProblemCode;
  /** Code that clients may compare, such as `model_not_found`. */
  readonly code?: string;
}

export class RequestFault extends ProblemError {
  readonly param: string | null;
  readonly code: string;

  constructor(detail: string, { problem = "inputs_invalid", param, code = "invalid_value" }: FaultOptions = {}) {
    super({ code: problem, detail });
    this.param = param ?? null;
    this.code = code;
  }
}

/** The error for inputs that the model's schema refuses. @param param name of the request's member with the inputs */
export function faultOfInputs(faults: readonly Fault[], param: string): RequestFault {
  const lines = faults.slice(0, 3).map(({ pointer, detail }) => {
    const [, index] = pointer.split("/");
    return `${index === undefined ? param : `${param}[${index}]`}: ${detail}`;
  });
  return new RequestFault(lines.join("; "), { param });
}

/** Answers an error in OpenAI's format. A RequestFault also names the member of the request that is wrong. */
export function errorResponse(c: Context, problem: Problem, error?: unknown): Response {
  const { param, code } = error instanceof RequestFault ? error : { param: null, code: problem.code };
  const usual = problemStatus(problem);
  // OpenAI's clients do not know the status 422, and get 400 instead.
  const status = usual === 422 ? 400 : usual;
  return answer(c, { message: problem.detail, type: typeOf(status), param, code }, status, problem.headers);
}

/** The answer for a failed prediction. OpenAI's clients retry requests after a 500, unless the header `X-Should-Retry` forbids it. */
export function failureResponse(c: Context, message: string): Response {
  const error = { message, type: "server_error", param: null, code: "prediction_failed" };
  return answer(c, error, 500, { "X-Should-Retry": "false" });
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

interface ErrorBody {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}

function answer(
  c: Context,
  error: ErrorBody,
  status: ProblemStatus,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return c.body(JSON.stringify({ error }), status, { ...headers, "Content-Type": "application/json" });
}
