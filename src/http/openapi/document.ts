/** Builds the OpenAPI document. Its routes have no handlers: the routes of the server validate bodies themselves, to report every fault. */
import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import { webhookEvents } from "../../predictions/webhooks/webhook.ts";
import { families } from "../record-json.ts";
import { fails, json } from "./answers.ts";
import type { DescribedApi } from "./api-routes.ts";
import { answered, signed, text, traced } from "./headers.ts";
import { creatingRoutes, type Described, readingRoutes } from "./routes.ts";
import { formSchema, healthSchema } from "./schemas.ts";

interface DocumentOptions {
  readonly version: string;
  readonly basePath?: string;
  readonly hasKeys?: boolean;
  readonly apis?: readonly DescribedApi[];
}

/** Adds the answers for a missing, unknown or refused API key to a route, or marks a health check as a route without a key. */
function withKey(route: RouteConfig): RouteConfig {
  if (route.path.startsWith("/health/")) return { ...route, security: [] };
  return { ...route, responses: { ...keyFaults, ...route.responses } };
}

const keyFaults = fails("key_required", "key_unknown", "key_refused");

/** The title, version, tags and security of the OpenAPI document, without routes and schemas. */
export function documentOf(
  { name, tag, description }: Readonly<Record<"name" | "tag" | "description", string>>,
  { version, basePath = "", hasKeys = false, apis = [] }: DocumentOptions,
) {
  return {
    openapi: "3.1.0",
    info: {
      title: name,
      // Client generators need a semantic version. The text after `+` is build metadata, which does not affect the order of versions.
      version: `${version}+${tag}`,
      description: description || `The model ${name}, served by sconce ${version}.`,
      contact: { name: "The operator of this server" },
      license: { name: "Apache-2.0, of the server; the model may have another", identifier: "Apache-2.0" },
    },
    servers: [{ url: basePath || "/", description: "This server" }],
    security: hasKeys ? [{ apiKey: [] }] : [],
    tags: [
      { name: "Model", description: "The model of this server" },
      ...families.map(({ tag, tagDescription }) => ({ name: tag, description: tagDescription })),
      ...apis.map(({ tag }) => tag),
      // Client generators write a file per tag. Webhooks under the tag of the routes would overwrite the file with the routes.
      { name: "Webhooks", description: "Messages that the server sends" },
      { name: "Operations", description: "Health and metrics, for operators" },
    ],
  };
}

const request = { headers: z.object(traced) };
const pageAnswer = {
  "Cache-Control": z.literal("no-cache"),
  "Content-Security-Policy": text("Scripts and styles come from this server only"),
  "Referrer-Policy": z.literal("no-referrer"),
  "X-Content-Type-Options": z.literal("nosniff"),
};

export function describeRoutes(app: OpenAPIHono, described: Described): void {
  const { schemas, example } = described;
  if (described.hasKeys) {
    app.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
      type: "http",
      scheme: "bearer",
      description: "An API key of this server. The header X-API-Key takes it, too.",
    });
  }
  const register = (route: RouteConfig) =>
    app.openAPIRegistry.registerPath(createRoute(described.hasKeys ? withKey(route) : route));
  const form = formSchema(schemas.definitions.get("Input") ?? {}, example);
  for (const [name, schema] of [...schemas.definitions, ["InputForm", form] as const]) {
    app.openAPIRegistry.registerComponent("schemas", name, schema);
  }
  register({
    method: "get",
    path: "/",
    operationId: "getModel",
    tags: ["Model"],
    summary: "The model, and the schemas of its inputs and outputs",
    description:
      "The schemas are JSON Schema 2020-12, each a complete document. Browsers (`Accept: text/html`) are redirected to the page.",
    request,
    responses: {
      200: json(schemas.description, "The model", {}, { Vary: z.literal("Accept") }),
      ...fails("not_ready"),
    },
  });
  register({
    method: "get",
    path: "/examples",
    operationId: "getExamples",
    tags: ["Model"],
    summary: "Inputs to try",
    description: "The example inputs of the model's author. Files are data URIs.",
    request,
    responses: {
      200: json(z.array(schemas.input), "The inputs", example === undefined ? {} : { example: [example] }),
      ...fails("not_ready"),
    },
  });
  if (described.hasPage === true) {
    register({
      method: "get",
      path: "/demo",
      operationId: "getPage",
      tags: ["Model"],
      summary: "The page on which people try the model",
      description: "Browsers (`Accept: text/html`) get it without an API key. The page asks for the key.",
      request,
      responses: {
        200: {
          description: "The page",
          headers: z.object({ ...pageAnswer, ...answered }),
          content: { "text/html": { schema: z.string() } },
        },
        ...fails("not_ready"),
      },
    });
  }
  for (const family of families) {
    for (const route of [...creatingRoutes(family, described), ...readingRoutes(family, described)]) register(route);
    const { kind, name, idName, noun } = family;
    const events = webhookEvents.filter((each) => kind === "demo" || each !== "log");
    const timestamp = z.iso.datetime();
    const type = z.enum(events.filter((event) => event !== "output").map((event) => `${kind}.${event}`));
    const message = z.object({ type, timestamp, data: schemas.sent[kind] }).openapi(`${name}Message`);
    const outputMessage = z
      .object({
        type: z.literal(`${kind}.output`),
        timestamp,
        data: z.object({ [idName]: z.string(), outputs: schemas.newOutputs }),
      })
      .openapi(`${name}OutputMessage`);
    for (const event of events) {
      app.openAPIRegistry.registerWebhook({
        method: "post",
        path: `${kind}.${event}`,
        operationId: `${event}${name}`,
        tags: ["Webhooks"],
        summary: `Message to the Webhook-URL of a ${noun}`,
        description:
          "Signed according to Standard Webhooks (standardwebhooks.com). The server repeats the last message until the answer is 2xx or 410. `truncated` replaces outcomes and outputs larger than 1 MiB.",
        request: {
          headers: z.object(signed),
          body: {
            required: true,
            content: { "application/json": { schema: event === "output" ? outputMessage : message } },
          },
        },
        responses: {
          200: { description: "Received" },
          410: { description: "The server sends no more messages about this prediction" },
        },
      });
    }
  }
  for (const { routes } of described.apis ?? []) {
    for (const route of routes) app.openAPIRegistry.registerPath(createRoute(route));
  }
  register({
    method: "get",
    path: "/health/live",
    operationId: "getLiveness",
    tags: ["Operations"],
    summary: "Whether the process runs",
    description: "Live from the start, also while the model is set up.",
    request,
    responses: { 200: json(healthSchema, "Live", { example: { status: "live" } }), ...fails() },
  });
  register({
    method: "get",
    path: "/health/ready",
    operationId: "getReadiness",
    tags: ["Operations"],
    summary: "Whether the server accepts predictions",
    description: "Not ready while the model is set up, and while the server stops.",
    request,
    responses: { 200: json(healthSchema, "Ready", { example: { status: "ready" } }), ...fails("not_ready") },
  });
  register({
    method: "get",
    path: "/metrics",
    operationId: "getMetrics",
    tags: ["Operations"],
    summary: "Metrics as Prometheus text",
    description: "Metrics of all processes of the server.",
    request,
    responses: {
      200: {
        description: "Prometheus text",
        headers: z.object(answered),
        content: {
          "text/plain": { schema: z.string(), example: 'sconce_predictions_total{status="success"} 1\n' },
        },
      },
      ...fails("not_ready"),
    },
  });
}
