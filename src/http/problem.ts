/** Error answers: problem details (RFC 9457), and their status for each error code. */
import { STATUS_CODES } from "node:http";
import type { Context } from "hono";
import { type ErrorCode, type Fault, SconceError } from "../base/errors.ts";
import { type Refusal, refusals } from "../base/labels.ts";

export type ProblemStatus = (typeof refusals)[Refusal];

/** The name of a status in HTTP, such as `Not Found`. */
export function titleOf(status: ProblemStatus): string {
  return STATUS_CODES[status] ?? String(status);
}

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
  method_not_allowed: "method",
  body_too_large: "size",
  body_too_slow: "slow",
  unsupported_media_type: "type",
  inputs_invalid: "inputs",
  prediction_differs: "inputs",
  webhook_refused: "webhook",
  queue_full: "queue",
  reload_refused: "reload",
  reload_failed: "new_build",
  internal: "internal",
  not_ready: "engine",
  predictions_unusable: "store",
  predictions_unwritable: "store",
  queue_unavailable: "replicas",
} as const satisfies Record<string, Refusal>;
export type ProblemCode = keyof typeof refusalOfCode;

export const problemCodes = Object.keys(refusalOfCode).filter(isProblemCode);

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(refusalOfCode, code);
}

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

/** The code of the problem for an error whose code has another name. */
const renamed: Partial<Record<ErrorCode, ProblemCode>> = { body_invalid: "not_json" };
/** Details that replace the message of an error, which reveals paths of files on the server. */
const hidden: Partial<Record<ErrorCode, string>> = { predictions_unusable: "kept predictions cannot be read now" };

/** The problem of an error. An error without a code for clients becomes a 500 without details. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const code = error instanceof SconceError ? (renamed[error.code] ?? error.code) : undefined;
  if (!(error instanceof SconceError) || code === undefined || !isProblemCode(code))
    return { code: "internal", detail: "The server failed to answer this request." };
  const { message, faults, refusal, retryAfterS } = error;
  const problem = { code, detail: hidden[error.code] ?? message, errors: faults, refusal };
  const status = problemStatus(problem);
  if (status !== 429 && status !== 503) return problem;
  // Closes the connection, since the client's next connection may reach another process that is ready.
  const closing = code === "not_ready" ? { Connection: "close" } : {};
  return { ...problem, headers: { "Retry-After": String(retryAfterS ?? 1), ...closing } };
}

export function problemResponse(c: Context, problem: Problem): Response {
  const { detail, code, errors, headers } = problem;
  const status = problemStatus(problem);
  const body = { type: problemType(code), title: titleOf(status), status, detail, ...(errors ? { errors } : {}) };
  // A new Response would lack the headers that middleware has set for CORS.
  return c.body(JSON.stringify(body), status, { ...headers, "Content-Type": "application/problem+json" });
}
