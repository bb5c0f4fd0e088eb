/** Answers in the OpenAPI document: JSON, and problems. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import type { Fault } from "../errors.ts";
import { answered, retryAfter } from "./header-schemas.ts";
import { type ProblemCode, problemType, titles } from "./problem.ts";
import { problemSchema } from "./schemas.ts";

interface ProblemSample {
  readonly description: string;
  readonly code: ProblemCode;
  readonly detail: string;
  readonly errors?: readonly Fault[];
}

const missing = { pointer: "/0", detail: "expected object, received string" };

const problems: Readonly<Record<400 | 404 | 408 | 413 | 415 | 416 | 422 | 429 | 500 | 503, ProblemSample>> = {
  400: {
    description: "The request is malformed: its body is not JSON, or a header cannot be read",
    code: "bad_header",
    detail: 'expected Cancel-After to be a number of seconds above 0, received "soon"',
  },
  404: {
    description: "There is no prediction with this id",
    code: "prediction_not_found",
    detail: "there is no prediction with this id; it may have ended too long ago to be kept",
  },
  408: {
    description: "The body came too slowly while others waited for memory",
    code: "body_too_slow",
    detail: "the body came at less than 32 kB/s while others waited for memory",
  },
  413: {
    description: "The body is too large",
    code: "body_too_large",
    detail: "a body may have at most 67108864 bytes (--max-body-bytes)",
  },
  415: {
    description: "The body is neither application/json nor a form, or its Content-Encoding is not known",
    code: "unsupported_media_type",
    detail:
      "expected the header Content-Type: application/json, or multipart/form-data with its boundary, received none",
  },
  416: {
    description: "The file has no such bytes",
    code: "range_not_satisfiable",
    detail: "there are 512 bytes, and none of those that were asked for",
  },
  422: {
    description: "The list is empty or too long, or an input does not fit its schema; every fault is listed",
    code: "inputs_invalid",
    detail: `${missing.pointer}: ${missing.detail}`,
    errors: [missing],
  },
  429: {
    description: "The queue is full; Retry-After says when to try again",
    code: "queue_full",
    detail: "the queue is full (10000 inputs of predictions that have not ended); try again later",
  },
  500: {
    description: "The server failed to answer",
    code: "internal",
    detail: "The server failed to answer this request.",
  },
  503: {
    description: "The server is setting up or stopping, or cannot keep predictions now",
    code: "not_ready",
    detail: "the model is being set up",
  },
};

/** @param examples `example` or `examples` of the body */
export function json(schema: z.ZodType, description: string, examples: object = {}, headers: z.ZodRawShape = {}) {
  return {
    description,
    headers: z.object({ ...headers, ...answered }),
    content: { "application/json": { schema, ...examples } },
  };
}

/** By status. */
export function fails(...statuses: (keyof typeof problems)[]): RouteConfig["responses"] {
  return Object.fromEntries(
    statuses.map((status) => {
      const { description, code, ...rest } = problems[status];
      const example = { type: problemType(code), title: titles[status], status, ...rest };
      const headers = z.object({ ...(status === 429 || status === 503 ? retryAfter : {}), ...answered });
      return [
        status,
        { description, headers, content: { "application/problem+json": { schema: problemSchema, example } } },
      ];
    }),
  );
}
