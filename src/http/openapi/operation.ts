/** Describes operations in the OpenAPI document: their headers, their answers and their errors. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { contentEncodings } from "../body-reader.ts";
import { type ProblemStatus, titleOf } from "../problem.ts";
import { type ModelSchemas, problemSchema } from "./schemas.ts";

/** The facts about a server and a model that its document depends on. */
export interface Facts {
  readonly schemas: ModelSchemas;
  /** An input that Swagger UI shows and sends; undefined without one. */
  readonly example: unknown;
  readonly hasKeys: boolean;
  /** Whether the server has --webhook-secret, without which it sends no webhooks. */
  readonly hasWebhooks: boolean;
  /** Whether the document is of the server, and not of a model below `/models`. */
  readonly isOfServer: boolean;
}

export interface Answer {
  readonly description: string;
  readonly headers?: z.ZodRawShape;
  readonly content?: Readonly<Record<string, { readonly schema: z.ZodType; readonly example?: unknown }>>;
}

export interface Operation {
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly params?: z.ZodRawShape;
  readonly headers?: z.ZodRawShape;
  readonly body?: NonNullable<RouteConfig["request"]>["body"];
  /** Answers without an error, by HTTP status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** HTTP statuses of errors. All operations also have 400 and 500. */
  readonly fails?: readonly ProblemStatus[];
  /** Whether the operation needs no API key. */
  readonly isOpen?: boolean;
}

/** Describes an answer with a JSON body. */
export function json(
  schema: z.ZodType,
  description: string,
  { headers, ...more }: { readonly headers?: z.ZodRawShape; readonly example?: unknown } = {},
): Answer {
  return { description, content: { "application/json": { schema, ...more } }, ...(headers && { headers }) };
}

/** A header with any text. The schema has `examples`, because Swagger UI would send the value of an `example`. */
export function text(description: string, ...examples: readonly string[]) {
  return z.string().openapi({ description, ...(examples.length > 0 ? { examples: [...examples] } : {}) });
}

const sampleId = "RaEfxVXjXb3ZnDsQ";
/** Response headers of every operation. */
const answered = { "X-Request-Id": text("The X-Request-Id of the request, or a new id", sampleId) };
/** Request headers of every operation. */
const traced = {
  "X-Request-Id": text(
    "Id of the request in the response and in the server's log: at most 128 characters of printable ASCII. The server replaces other values",
    sampleId,
  ).optional(),
  traceparent: text(
    "W3C Trace Context: the client's span, for the server's log",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ).optional(),
};

const retryAfter = {
  "Retry-After": z
    .int()
    .min(0)
    .openapi({ description: "Seconds to wait before the next try", examples: [1] }),
};
const failureHeaders: Partial<Record<ProblemStatus, z.ZodRawShape>> = {
  401: { "WWW-Authenticate": text("How to send the key", 'Bearer realm="sconce"') },
  415: {
    "Accept-Encoding": text("Present if the Content-Encoding is unknown", contentEncodings.join(", ")).optional(),
  },
  429: retryAfter,
  503: retryAfter,
};

/** The operation in the form of the OpenAPI document. */
export function operationOf(
  { id, tag, summary, description, params, headers, body, answers, fails = [], isOpen = false }: Operation,
  { hasKeys }: Pick<Facts, "hasKeys">,
) {
  const statuses = new Set<ProblemStatus>([
    400,
    ...(hasKeys && !isOpen ? [401 as const, 403 as const] : []),
    ...fails,
    500,
  ]);
  const failures = [...statuses].sort().map((status) => [status, failureOf(status)]);
  const described = Object.entries(answers).map(([status, { headers: own, ...answer }]) => [
    status,
    { ...answer, headers: z.object({ ...own, ...answered }) },
  ]);
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    ...(hasKeys && isOpen ? { security: [] } : {}),
    request: {
      ...(params && { params: z.object(params) }),
      ...(body && { body }),
      headers: z.object({ ...headers, ...traced }),
    },
    responses: Object.fromEntries([...described, ...failures]),
  };
}

function failureOf(status: ProblemStatus) {
  return {
    description: titleOf(status),
    headers: z.object({ ...failureHeaders[status], ...answered }),
    content: { "application/problem+json": { schema: problemSchema } },
  };
}
