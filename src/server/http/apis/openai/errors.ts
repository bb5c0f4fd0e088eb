/** Errors in OpenAI's form. */
import type { Context } from "hono";
import type { Fault } from "../../../../base/errors.ts";
import { type Problem, ProblemError } from "../../problem.ts";

interface FaultOptions {
  /** The faulty member of the request. */
  readonly param?: string;
  readonly status?: 400 | 404 | 405 | 413;
  /** Stable code for programs. */
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const problemCodes = {
  400: "inputs_invalid",
  404: "not_found",
  405: "method_not_allowed",
  413: "body_too_large",
} as const;

/** A request that this API refuses. */
export class RequestFault extends ProblemError {
  readonly param: string | null;
  readonly code: string;

  constructor(detail: string, { param, status = 400, code = "invalid_value", headers }: FaultOptions = {}) {
    super({ status, code: problemCodes[status], detail, ...(headers && { headers }) });
    this.param = param ?? null;
    this.code = code;
  }
}

/** Inputs that the model's schema refuses. @param param name of the request's list */
export function faultOfInputs(faults: readonly Fault[], param: string): RequestFault {
  const lines = faults.slice(0, 3).map(({ pointer, detail }) => {
    const [, index] = pointer.split("/");
    return `${index === undefined ? param : `${param}[${index}]`}: ${detail}`;
  });
  return new RequestFault(lines.join("; "), { param });
}

/** @param problem the error's status and text */
export function errorResponse(c: Context, problem: Problem, error?: unknown): Response {
  const { param, code } = error instanceof RequestFault ? error : { param: null, code: problem.code };
  // OpenAI's clients know no 422.
  const status = problem.status === 422 ? 400 : problem.status;
  return answer(c, { message: problem.detail, type: typeOf(status), param, code }, status, problem.headers);
}

/** A prediction that failed. OpenAI's clients repeat answers of 500 unless a header says that this is of no use. */
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
  status: Problem["status"],
  headers: Readonly<Record<string, string>> = {},
): Response {
  return c.body(JSON.stringify({ error }), status, { ...headers, "Content-Type": "application/json" });
}
