/** What the routes do, as OpenAPI paths. The handlers are registered apart: they read bodies themselves, to name every fault. */
import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { Fault } from "../errors.ts";
import { webhookEvents } from "../webhooks/webhook.ts";
import { chosenId } from "./chosen-id.ts";
import { families } from "./families.ts";
import { MAX_CANCEL_AFTER_S, MAX_WAIT_S, OUTPUTS_AS_LINKS } from "./prefer.ts";
import { type ProblemCode, problemType, titles } from "./problem.ts";
import { readingRoutes } from "./reading-routes.ts";
import { recordSamples } from "./record-samples.ts";
import { healthSchema, type modelSchemas, problemSchema } from "./schemas.ts";
import { MAX_WEBHOOK_URL } from "./webhook-headers.ts";

type Schemas = ReturnType<typeof modelSchemas>;

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

const retryAfter = z.int().min(0).openapi({ description: "Seconds to wait before the next try", example: 1 });

const waitDescription = `\`wait\` or \`wait=seconds\` (at most ${MAX_WAIT_S}) answers at the end`;
const linksDescription = `\`${OUTPUTS_AS_LINKS}\` answers with links in the places of outputs that are data URIs; they can be read as long as the outputs`;
const preferHeader = (hasLinks: boolean) =>
  z
    .string()
    .optional()
    .openapi({
      param: { name: "Prefer", in: "header" },
      description: hasLinks ? `${waitDescription}; ${linksDescription}` : waitDescription,
      example: "wait=60",
    });
const appliedHeader = z.literal(OUTPUTS_AS_LINKS).optional().openapi({ description: "Where outputs are links" });
const cancelAfterHeader = z
  .number()
  .min(0.001)
  .max(MAX_CANCEL_AFTER_S)
  .optional()
  .openapi({
    param: { name: "Cancel-After", in: "header" },
    description: "A time limit for this prediction, in seconds; at most three decimals",
    example: 30,
  });

const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";
const keyHeader = z
  .string()
  .min(16)
  .max(257)
  .optional()
  .openapi({
    param: { name: "Idempotency-Key", in: "header" },
    description:
      "What is sent again with the same key and body makes no second prediction: the answer is the one that there is, as it stands",
    example: sampleKey,
  });
const webhookHeaders = {
  "Webhook-URL": z
    .url()
    .max(MAX_WEBHOOK_URL)
    .optional()
    .openapi({
      param: { name: "Webhook-URL", in: "header" },
      description: "Told of the prediction, where the server has a secret to sign with",
      example: "https://example.com/told",
    }),
  "Webhook-Events": z
    .string()
    .optional()
    .openapi({
      param: { name: "Webhook-Events", in: "header" },
      description: `What it is told of: some of ${webhookEvents.join(", ")}; by default completed`,
      example: "start, completed",
    }),
};
/** Of a message to a webhook. */
const signed = z.object({
  "webhook-id": z
    .string()
    .openapi({ param: { name: "webhook-id", in: "header" }, description: "The same at every try of a message" }),
  "webhook-timestamp": z
    .string()
    .openapi({ param: { name: "webhook-timestamp", in: "header" }, description: "Of this try, in seconds since 1970" }),
  "webhook-signature": z
    .string()
    .openapi({ param: { name: "webhook-signature", in: "header" }, description: "As Standard Webhooks has it" }),
});

const requestId = z.string().openapi({ description: "That of the request, or a new one", example: "RaEfxVXjXb3ZnDsQ" });
/** Of every answer. */
const answered = { "X-Request-Id": requestId };
/** Of every request. */
const traced = {
  "X-Request-Id": z
    .string()
    .max(128)
    .optional()
    .openapi({
      param: { name: "X-Request-Id", in: "header" },
      description: "Names the request in its answer and in the server's log: printable ASCII",
      example: "RaEfxVXjXb3ZnDsQ",
    }),
  traceparent: z
    .string()
    .optional()
    .openapi({
      param: { name: "traceparent", in: "header" },
      description: "W3C Trace Context: names the client's span in the server's log",
      example: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }),
};
const request = { headers: z.object(traced) };

/** Of the whole document. */
export function documentOf(
  { name, tag, description }: Readonly<Record<"name" | "tag" | "description", string>>,
  version: string,
) {
  return {
    openapi: "3.1.0",
    info: {
      title: name,
      // Generators of packages ask for a version; the build is the part of it that orders nothing.
      version: `${version}+${tag}`,
      description: description || `The model ${name}, served by sconce ${version}.`,
      contact: { name: "Whoever runs this server" },
      license: { name: "Apache-2.0, of the server; the model may have another", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/", description: "This server" }],
    security: [],
    tags: [
      { name: "Model", description: "What is served" },
      ...families.map(({ tag, description }) => ({ name: tag, description })),
      { name: "Operations", description: "For those who run the server" },
    ],
  };
}

export interface Described {
  /** One input, shown in the docs and sent by their "Execute". */
  readonly example: unknown;
  /** Whether outputs may be links. */
  readonly hasLinks: boolean;
}

export function describeRoutes(app: OpenAPIHono, schemas: Schemas, { example, hasLinks }: Described): void {
  const prefer = preferHeader(hasLinks);
  const applied = hasLinks ? { "Preference-Applied": appliedHeader, ...answered } : answered;
  const json = <T extends z.ZodType>(schema: T, description: string, examples: object = {}) => ({
    description,
    headers: z.object(answered),
    content: { "application/json": { schema, ...examples } },
  });
  const fails = (...statuses: (keyof typeof problems)[]) =>
    Object.fromEntries(
      statuses.map((status) => {
        const { description, code, ...rest } = problems[status];
        const sample = { type: problemType(code), title: titles[status], status, ...rest };
        return [
          status,
          {
            description,
            headers: z.object(status === 429 || status === 503 ? { "Retry-After": retryAfter, ...answered } : answered),
            content: { "application/problem+json": { schema: problemSchema, example: sample } },
          },
        ];
      }),
    );
  const register = (route: RouteConfig) => app.openAPIRegistry.registerPath(createRoute(route));

  for (const [name, schema] of schemas.definitions) app.openAPIRegistry.registerComponent("schemas", name, schema);
  register({
    method: "get",
    path: "/",
    operationId: "getModel",
    tags: ["Model"],
    summary: "The model, and the schemas of its inputs and outputs",
    description: "The schemas are JSON Schema 2020-12, each a document of its own.",
    request,
    responses: { 200: json(schemas.description, "The model"), ...fails(400, 500, 503) },
  });
  for (const family of families) {
    const { path, kind, idName, name, tag, noun } = family;
    const schema = schemas.records[kind];
    const id = z.string().openapi({ param: { name: idName, in: "path" }, description: `As POST ${path} gave it` });
    const params = z.object({ [idName]: id });
    const samples = (...statuses: Parameters<typeof recordSamples>[2]) => ({
      examples: recordSamples(family, schemas.samples, statuses),
    });
    const asked = { Prefer: prefer, "Cancel-After": cancelAfterHeader, ...webhookHeaders };
    const creation = {
      tags: [tag],
      request: {
        body: {
          required: true,
          content: {
            "application/json": { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) },
          },
        },
      },
      responses: {
        200: {
          ...json(
            schema,
            `The ${noun} as it stands: pending, or ended if the client asked to wait`,
            samples("pending", "success", "failed"),
          ),
          headers: z.object({ Location: z.string().openapi({ description: `The path of the ${noun}` }), ...applied }),
        },
        ...fails(400, 408, 413, 415, 422, 429, 500, 503),
      },
    };
    register({
      ...creation,
      method: "post",
      path,
      operationId: `create${name}`,
      summary: `Create a ${noun} from a list of inputs`,
      description: `Answers at once with a ${idName} to read it with, or, with \`Prefer: wait\`, at its end, or, with \`Accept: text/event-stream\`, with the events of stream${name}; a client that leaves before the end of these cancels it.`,
      request: { ...creation.request, headers: z.object({ ...asked, "Idempotency-Key": keyHeader, ...traced }) },
    });
    register({
      ...creation,
      method: "put",
      path: `${path}/{${idName}}`,
      operationId: `put${name}`,
      summary: `Create a ${noun} once, under an id of your own`,
      description:
        "As POST, but what is sent again makes no second one: the answer is the one that there is, as it stands. The same body is needed.",
      request: {
        ...creation.request,
        params: z.object({
          [idName]: z
            .string()
            .regex(chosenId)
            .openapi({ param: { name: idName, in: "path" }, description: "Hard to guess", example: sampleKey }),
        }),
        headers: z.object({ ...asked, ...traced }),
      },
    });
    register({
      method: "get",
      path: `${path}/{${idName}}`,
      operationId: `get${name}`,
      tags: [tag],
      summary: `Read a ${noun}`,
      description: `Answers at once, or, with \`Prefer: wait\`, at its end, or, with \`Accept: text/event-stream\`, as stream${name}. Ended ones can be read for a while.`,
      request: { params, headers: z.object({ Prefer: prefer, ...traced }) },
      responses: {
        200: {
          ...json(schema, `The ${noun} as it stands`, samples("success", "pending", "running", "failed")),
          headers: z.object(applied),
        },
        ...fails(400, 404, 500, 503),
      },
    });
    for (const route of readingRoutes(family, {
      params,
      traced,
      answered,
      fails,
      samples: samples("pending", "success"),
    })) {
      register(route);
    }
    register({
      method: "post",
      path: `${path}/{${idName}}/cancel`,
      operationId: `cancel${name}`,
      tags: [tag],
      summary: `Cancel a ${noun}`,
      description: "Inputs that wait are not run. What other clients sent is not touched.",
      request: { params, headers: z.object(traced) },
      responses: {
        200: json(
          schema,
          `The ${noun} as it now stands; one that had ended stays as it is`,
          samples("canceled", "success"),
        ),
        ...fails(400, 404, 500, 503),
      },
    });
    for (const event of webhookEvents.filter((each) => kind === "demo" || each !== "log")) {
      const data = event === "output" ? z.object({ [idName]: z.string(), outputs: schemas.newOutputs }) : schema;
      const message = z.object({ type: z.literal(`${kind}.${event}`), timestamp: z.iso.datetime(), data });
      app.openAPIRegistry.registerWebhook({
        method: "post",
        path: `${kind}.${event}`,
        operationId: `${event}${name}`,
        tags: [tag],
        summary: `What the Webhook-URL of a ${noun} is told`,
        description:
          "Signed as Standard Webhooks (standardwebhooks.com) says. Told again until it is answered with success, or 410, if it is the end; outcomes and outputs beyond 1 MiB are left out, with `truncated` in their place.",
        request: { headers: signed, body: { required: true, content: { "application/json": { schema: message } } } },
        responses: { 200: { description: "Heard" }, 410: { description: "Nothing more is to be told of it" } },
      });
    }
  }
  register({
    method: "get",
    path: "/health/live",
    operationId: "getLiveness",
    tags: ["Operations"],
    summary: "Whether the process runs",
    description: "True from the start, also while the model is set up.",
    request,
    responses: { 200: json(healthSchema, "It runs", { example: { status: "live" } }), ...fails(400, 500) },
  });
  register({
    method: "get",
    path: "/health/ready",
    operationId: "getReadiness",
    tags: ["Operations"],
    summary: "Whether predictions are taken",
    description: "Not before the model is set up, nor when the server stops.",
    request,
    responses: { 200: json(healthSchema, "They are taken", { example: { status: "ready" } }), ...fails(400, 500, 503) },
  });
  register({
    method: "get",
    path: "/metrics",
    operationId: "getMetrics",
    tags: ["Operations"],
    summary: "Metrics as Prometheus text",
    description: "Of the whole server, however many processes it has.",
    request,
    responses: {
      200: {
        description: "Prometheus text",
        headers: z.object(answered),
        content: {
          "text/plain": { schema: z.string(), example: 'sconce_predictions_total{status="success"} 1\n' },
        },
      },
      ...fails(400, 500, 503),
    },
  });
}
