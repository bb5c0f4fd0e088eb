/** Describes operations in the OpenAPI document: their request headers, their answers and their errors. */
import { type RouteConfig, z } from "@hono/zod-openapi";
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
}

export interface Answer {
  readonly description: string;
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
export function json(schema: z.ZodType, description: string, more: { readonly example?: unknown } = {}): Answer {
  return { description, content: { "application/json": { schema, ...more } } };
}

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
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    ...(hasKeys && isOpen ? { security: [] } : {}),
    request: {
      ...(params && { params: z.object(params) }),
      ...(body && { body }),
      ...(headers && { headers: z.object(headers) }),
    },
    responses: { ...answers, ...Object.fromEntries(failures) },
  };
}

function failureOf(status: ProblemStatus) {
  return {
    description: titleOf(status),
    content: { "application/problem+json": { schema: problemSchema } },
  };
}
