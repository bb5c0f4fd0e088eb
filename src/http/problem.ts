/** Error answers: problem details (RFC 9457), and their status for each error code. */
import { type ErrorCode, type Fault, SconceError } from "../base/errors.ts";
import { type Refusal, refusals } from "../base/labels.ts";

export type ProblemStatus = (typeof refusals)[Refusal];

export const titles = {
  400: "Bad request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not found",
  405: "Method not allowed",
  408: "Request timeout",
  409: "Conflict",
  413: "Content too large",
  415: "Unsupported media type",
  422: "Unprocessable content",
  429: "Too many requests",
  500: "Internal server error",
  503: "Service unavailable",
} as const satisfies Record<ProblemStatus, string>;

/**
 * Codes of problems, each with its label `cause` in the metrics of refused requests. The `type` URN ends with the code, and clients may depend on it.
 */
const refusalOfCode = {
  not_json: "json",
  body_unreadable: "encoding",
  body_incomplete: "incomplete",
  bad_header: "header",
  key_required: "key",
  key_unknown: "key",
  key_refused: "permission",
  origin_refused: "origin",
  host_refused: "host",
  not_found: "path",
  prediction_not_found: "prediction",
  file_not_found: "file",
  method_not_allowed: "method",
  body_too_large: "size",
  body_too_slow: "slow",
  unsupported_media_type: "type",
  inputs_invalid: "inputs",
  prediction_differs: "inputs",
  webhook_refused: "webhook",
  queue_full: "queue",
  key_limit: "key_limit",
  reload_refused: "reload",
  reload_failed: "new_build",
  internal: "internal",
  not_ready: "engine",
  predictions_unusable: "store",
  predictions_unwritable: "store",
  queue_unavailable: "replicas",
} as const satisfies Record<string, Refusal>;
export type ProblemCode = keyof typeof refusalOfCode;

export const problemCodes = Object.keys(refusalOfCode).filter((code): code is ProblemCode => code in refusalOfCode);

export function problemType(code: ProblemCode): `urn:sconce:problem:${ProblemCode}` {
  return `urn:sconce:problem:${code}`;
}

export interface Problem {
  readonly detail: string;
  readonly code: ProblemCode;
  readonly errors?: readonly Fault[] | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** The label `cause` in the metrics of refused requests. It decides the HTTP status. Default: the label of the code. */
  readonly refusal?: Refusal | undefined;
}

type Kind = Pick<Problem, "code" | "refusal">;

export function refusalOf({ code, refusal = refusalOfCode[code] }: Kind): Refusal {
  return refusal;
}

export function problemStatus(problem: Kind): ProblemStatus {
  return refusals[refusalOf(problem)];
}

/** An error that a route throws to answer with problem details. */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem, options?: { cause?: unknown }) {
    super(problem.detail, options);
    this.problem = problem;
  }
}

export function unknownPrediction(): ProblemError {
  return new ProblemError({
    code: "prediction_not_found",
    detail: "there is no prediction with this id; it may have ended too long ago to be kept",
  });
}

/** Problem details by error code. Any other error becomes a 500 without details. */
const known: Partial<Record<ErrorCode, Omit<Problem, "detail" | "errors"> & Partial<Pick<Problem, "detail">>>> = {
  body_invalid: { code: "not_json" },
  inputs_invalid: { code: "inputs_invalid" },
  prediction_differs: { code: "prediction_differs" },
  webhook_refused: { code: "webhook_refused" },
  queue_full: { code: "queue_full", headers: { "Retry-After": "1" } },
  key_limit: { code: "key_limit", headers: { "Retry-After": "1" } },
  predictions_unusable: {
    code: "predictions_unusable",
    // Replaces the message of the error, which reveals paths of files on the server.
    detail: "kept predictions cannot be read now",
    headers: { "Retry-After": "1" },
  },
  predictions_unwritable: { code: "predictions_unwritable", headers: { "Retry-After": "1" } },
  queue_unavailable: { code: "queue_unavailable", headers: { "Retry-After": "1" } },
  // Closes the connection, since the client's next connection may reach another process that is ready.
  not_ready: { code: "not_ready", headers: { "Retry-After": "1", Connection: "close" } },
};

export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const entry = error instanceof SconceError ? known[error.code] : undefined;
  if (error instanceof SconceError && entry !== undefined) {
    const retry = error.retryAfterS === undefined ? {} : { "Retry-After": String(error.retryAfterS) };
    const headers = { ...entry.headers, ...retry };
    return { detail: error.message, errors: error.faults, refusal: error.refusal, ...entry, headers };
  }
  return { code: "internal", detail: "The server failed to answer this request." };
}

export function problemResponse(problem: Problem): Response {
  const { detail, code, errors, headers } = problem;
  const status = problemStatus(problem);
  const body = {
    type: problemType(code),
    title: titles[status],
    status,
    detail,
    ...(errors ? { errors } : {}),
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...headers, "Content-Type": "application/problem+json" },
  });
}
