/** Describes answers in the OpenAPI document: JSON bodies and problem details. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import type { Fault } from "../../base/errors.ts";
import { contentEncodings } from "../decoded-body.ts";
import { type ProblemCode, type ProblemStatus, problemStatus, problemType, titles } from "../problem.ts";
import { answered } from "./headers.ts";
import { problemSchema } from "./schemas.ts";

/**
 * Describes an answer with a JSON body.
 * @param examples `{ example }` or `{ examples }` for the body
 */
export function json(schema: z.ZodType, description: string, examples: object = {}, headers: z.ZodRawShape = {}) {
  return {
    description,
    headers: z.object({ ...headers, ...answered }),
    content: { "application/json": { schema, ...examples } },
  };
}

const descriptions: Readonly<Record<ProblemStatus, string>> = {
  ...titles,
  400: "The request is malformed: its body is not JSON, or a header or an id is invalid",
  401: "The request has no API key, or an unknown one",
  403: "A page of another origin may not start or cancel work, or the API key does not permit the request",
  404: "No prediction has this id, or the prediction has no such file",
  408: "The body arrived too slowly while other requests waited for memory",
  413: "The body is too large",
  415: "The body is neither application/json nor a form, or its Content-Encoding is unknown",
  416: "The file has no such bytes",
  422: "The list is empty or too long, or an input does not fit its schema: `errors` lists every fault. Or the server refuses the id or the webhook",
  429: "The queue or the server's memory is full, or the API key has reached a limit; Retry-After says when to try again",
  500: "The server failed to answer",
  503: "The server is setting up or stopping, or cannot store or read predictions now",
};

interface Sample {
  readonly detail: string;
  readonly errors?: readonly Fault[];
}

const missing = { pointer: "/0", detail: "expected object, received string" };

/** Codes of problem details that no documented route answers. */
type Undocumented = "not_found" | "method_not_allowed" | "host_refused" | "reload_refused" | "reload_failed";

/** An example of the problem details of each documented code. */
const samples = {
  not_json: { detail: "the body is not JSON: Unexpected EOF" },
  body_unreadable: {
    detail: "the body cannot be read as gzip, which its Content-Encoding announces, or it ended too early",
  },
  body_incomplete: { detail: "the body ended before the length that was announced for it" },
  bad_header: {
    detail: 'expected Cancel-After to be a number of seconds from 0.001 to 999999999.999, received "soon"',
  },
  key_required: {
    detail: "an API key is required: Authorization: Bearer KEY, or X-API-Key: KEY",
  },
  key_unknown: { detail: "the API key is unknown" },
  key_refused: {
    detail: "the API key team-a does not permit metrics (`only` in the file of the keys)",
  },
  origin_refused: {
    detail: "pages of https://other.example may not start or cancel work here; --cors-origin allows them",
  },
  prediction_not_found: {
    detail: "there is no prediction with this id; it may have ended too long ago to be kept",
  },
  file_not_found: { detail: "the output has no faces/1" },
  body_too_slow: { detail: "the body came at less than 32 kB/s while others waited for memory" },
  body_too_large: { detail: "a body may have at most 67108864 bytes (--max-body-bytes)" },
  unsupported_media_type: {
    detail:
      'expected the header Content-Type: application/json, or multipart/form-data with its boundary, received "application/xml"',
  },
  range_not_satisfiable: { detail: "there are 512 bytes, and none of those that were asked for" },
  inputs_invalid: { detail: `${missing.pointer}: ${missing.detail}`, errors: [missing] },
  prediction_differs: {
    detail: "there is a prediction of another body with this id or Idempotency-Key: send this one with a new one",
  },
  webhook_refused: {
    detail: "this server tells nobody of predictions: it has no --webhook-secret to sign messages with",
  },
  queue_full: {
    detail: "the queue is full (10000 inputs of predictions that have not ended); try again later",
  },
  key_limit: { detail: "the API key team-a has sent 100 requests in 60 s, its limit" },
  internal: { detail: "The server failed to answer this request." },
  not_ready: { detail: "the model is being set up" },
  predictions_unusable: { detail: "kept predictions cannot be read now" },
  predictions_unwritable: {
    detail: "the prediction cannot be kept now: the store says that the disk is full",
  },
  queue_unavailable: { detail: "the queue of the replicas cannot be used now; try again later" },
} satisfies Record<Exclude<ProblemCode, Undocumented>, Sample>;

type SampleCode = keyof typeof samples;

/** Codes of the 503 answers of routes that read predictions. */
export const unreadable = ["not_ready", "predictions_unusable", "queue_unavailable"] as const;

const retryAfter = {
  "Retry-After": z
    .int()
    .min(0)
    .openapi({ description: "Seconds to wait before the next try", examples: [1] }),
};
const headers: Partial<Record<ProblemStatus, z.ZodRawShape>> = {
  401: { "WWW-Authenticate": z.string().openapi({ examples: ['Bearer realm="sconce"'] }) },
  415: {
    "Accept-Encoding": z
      .literal(contentEncodings.join(", "))
      .optional()
      .openapi({ description: "Present if the Content-Encoding is unknown" }),
  },
  416: {
    "Content-Range": z.string().openapi({ description: "Size of the file", examples: ["bytes */512"] }),
  },
  429: retryAfter,
  503: retryAfter,
};

/** Describes the error answers with these codes, by HTTP status. Adds `bad_header` and `internal`, which every route may answer. */
export function fails(...codes: readonly SampleCode[]): RouteConfig["responses"] {
  const byStatus = Map.groupBy(new Set<SampleCode>(["bad_header", ...codes, "internal"]), (code) =>
    problemStatus({ code }),
  );
  return Object.fromEntries(
    Array.from(byStatus, ([status, codes]) => {
      const examples = Object.fromEntries(codes.map(named));
      return [status, failed(status, { "application/problem+json": { schema: problemSchema, examples } })];
    }),
  );
}

/**
 * Describes the error answers of another server's API, whose bodies have the schema `schema`.
 * @param own descriptions that replace the usual ones
 */
export function failsWith(
  statuses: readonly ProblemStatus[],
  schema: z.ZodType,
  own: Partial<Record<ProblemStatus, string>>,
): RouteConfig["responses"] {
  const content = { "application/json": { schema } };
  return Object.fromEntries(statuses.map((status) => [status, failed(status, content, own[status])]));
}

function failed<C>(status: ProblemStatus, content: C, description = descriptions[status]) {
  return { description, headers: z.object({ ...headers[status], ...answered }), content };
}

function named(code: SampleCode) {
  const status = problemStatus({ code });
  return [code, { value: { type: problemType(code), title: titles[status], status, ...samples[code] } }];
}
