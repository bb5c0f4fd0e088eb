/** Errors as clients see them: RFC 9457 problem details. */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { type ErrorCode, SconceError } from "../errors.ts";

/** One fault of a body. */
export interface Fault {
  /** JSON pointer (RFC 6901) into the body; "" is the body itself. */
  readonly pointer: string;
  readonly detail: string;
}

export interface Problem {
  readonly status: ContentfulStatusCode;
  readonly title: string;
  readonly detail: string;
  /** A stable word; `type` is made of it. */
  readonly code: string;
  readonly errors?: readonly Fault[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that cannot be answered with anything but a problem. */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem, options?: { cause?: unknown }) {
    super(problem.detail, options);
    this.problem = problem;
  }
}

/** The status and title of the errors that reach a client as such; every other error is a 500 without internals. */
const known: Partial<Record<ErrorCode, Pick<Problem, "status" | "title" | "headers">>> = {
  queue_full: { status: 429, title: "Too many requests", headers: { "Retry-After": "1" } },
  predictions_unwritable: { status: 503, title: "Service unavailable", headers: { "Retry-After": "1" } },
  not_ready: { status: 503, title: "Service unavailable", headers: { "Retry-After": "1" } },
};

export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const entry = error instanceof SconceError ? known[error.code] : undefined;
  if (error instanceof SconceError && entry !== undefined) return { ...entry, code: error.code, detail: error.message };
  return {
    status: 500,
    title: "Internal server error",
    code: "internal",
    detail: "The server failed to answer this request.",
  };
}

export function problemResponse(c: Context, problem: Problem): Response {
  const { status, title, detail, code, errors, headers } = problem;
  const body = { type: `urn:sconce:problem:${code}`, title, status, detail, ...(errors ? { errors } : {}) };
  return c.body(JSON.stringify(body), status, { ...headers, "Content-Type": "application/problem+json" });
}
