/** What the routes do, as OpenAPI paths. The handlers are registered apart: they read bodies themselves, to name every fault. */
import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { families } from "./families.ts";
import { healthSchema, type modelSchemas, problemSchema } from "./schemas.ts";

type Schemas = ReturnType<typeof modelSchemas>;

const problems: Readonly<Record<number, string>> = {
  400: "The body is not JSON, or a header is malformed",
  404: "There is no prediction with this id",
  413: "The body is too large",
  415: "The body is not application/json",
  422: "The list is empty or too long, or an input does not fit its schema; every fault is listed",
  429: "The queue is full; Retry-After says when to try again",
  503: "The server is setting up or stopping",
};

const preferHeader = z
  .string()
  .optional()
  .openapi({
    param: { name: "Prefer", in: "header" },
    description: "`wait` or `wait=seconds` (at most 300) answers at the end",
    example: "wait=60",
  });
const cancelAfterHeader = z
  .string()
  .optional()
  .openapi({
    param: { name: "Cancel-After", in: "header" },
    description: "A time limit for this prediction, in seconds",
  });
const id = z.string().openapi({ param: { name: "id", in: "path" } });

/** @param example one input, shown in the docs and sent by their "Execute" */
export function describeRoutes(app: OpenAPIHono, schemas: Schemas, example: unknown): void {
  const json = <T extends z.ZodType>(schema: T, description: string) => ({
    description,
    content: { "application/json": { schema } },
  });
  const fails = (...statuses: number[]) =>
    Object.fromEntries(
      statuses.map((status) => [
        status,
        { description: problems[status] ?? "", content: { "application/problem+json": { schema: problemSchema } } },
      ]),
    );
  const register = (route: Parameters<typeof app.openAPIRegistry.registerPath>[0]) =>
    app.openAPIRegistry.registerPath(createRoute(route));

  for (const [name, schema] of schemas.definitions) app.openAPIRegistry.registerComponent("schemas", name, schema);
  register({
    method: "get",
    path: "/",
    operationId: "getModel",
    tags: ["Model"],
    summary: "The model, and the schemas of its inputs and outputs",
    responses: { 200: json(schemas.description, "The model") },
  });
  for (const { path, kind, name, tag, noun } of families) {
    const schema = schemas.records[kind];
    register({
      method: "post",
      path,
      operationId: `create${name}`,
      tags: [tag],
      summary: `Create a ${noun} from a list of inputs`,
      request: {
        headers: z.object({ Prefer: preferHeader, "Cancel-After": cancelAfterHeader }),
        body: {
          required: true,
          content: {
            "application/json": { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) },
          },
        },
      },
      responses: {
        200: {
          ...json(schema, `The ${noun} as it stands: pending, or ended if the client asked to wait`),
          headers: z.object({ Location: z.string() }),
        },
        ...fails(400, 413, 415, 422, 429, 503),
      },
    });
    register({
      method: "get",
      path: `${path}/{id}`,
      operationId: `get${name}`,
      tags: [tag],
      summary: `Read a ${noun}`,
      request: { params: z.object({ id }), headers: z.object({ Prefer: preferHeader }) },
      responses: { 200: json(schema, `The ${noun} as it stands`), ...fails(404) },
    });
    register({
      method: "post",
      path: `${path}/{id}/cancel`,
      operationId: `cancel${name}`,
      tags: [tag],
      summary: `Cancel a ${noun}`,
      request: { params: z.object({ id }) },
      responses: {
        200: json(schema, `The ${noun} as it now stands; one that had ended stays as it is`),
        ...fails(404),
      },
    });
  }
  register({
    method: "get",
    path: "/health/live",
    operationId: "getLiveness",
    tags: ["Operations"],
    summary: "Whether the process runs",
    responses: { 200: json(healthSchema, "It runs") },
  });
  register({
    method: "get",
    path: "/health/ready",
    operationId: "getReadiness",
    tags: ["Operations"],
    summary: "Whether predictions are taken",
    responses: { 200: json(healthSchema, "They are taken"), ...fails(503) },
  });
  register({
    method: "get",
    path: "/metrics",
    operationId: "getMetrics",
    tags: ["Operations"],
    summary: "Metrics as Prometheus text",
    responses: { 200: { description: "Prometheus text", content: { "text/plain": { schema: z.string() } } } },
  });
}
