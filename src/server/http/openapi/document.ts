/** What the routes do, as OpenAPI paths. The handlers are registered apart: they read bodies themselves, to name every fault. */
import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import { webhookEvents } from "../../webhooks/webhook.ts";
import { families } from "../record-json.ts";
import { fails, json } from "./answers.ts";
import { answered, signed, traced } from "./headers.ts";
import { creatingRoutes, type Described, readingRoutes } from "./routes.ts";
import { formSchema, healthSchema } from "./schemas.ts";

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
      ...families.map(({ tag, tagDescription }) => ({ name: tag, description: tagDescription })),
      // A tag of their own: generators write a file for each, and would write those of the routes over.
      { name: "Webhooks", description: "What the server sends by itself" },
      { name: "Operations", description: "For those who run the server" },
    ],
  };
}

const request = { headers: z.object(traced) };

export function describeRoutes(app: OpenAPIHono, described: Described): void {
  const { schemas, example } = described;
  const register = (route: RouteConfig) => app.openAPIRegistry.registerPath(createRoute(route));
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
      "The schemas are JSON Schema 2020-12, each a document of its own. Browsers (`Accept: text/html`) are sent to the page.",
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
    description: "The model's author gives them. Files are data URIs.",
    request,
    responses: {
      200: json(z.array(schemas.input), "The inputs", example === undefined ? {} : { example: [example] }),
      ...fails("not_ready"),
    },
  });
  for (const family of families) {
    for (const route of [...creatingRoutes(family, described), ...readingRoutes(family, described)]) register(route);
    const { kind, name, idName, noun } = family;
    const events = webhookEvents.filter((each) => kind === "demo" || each !== "log");
    // Components: receivers read them by these names.
    const timestamp = z.iso.datetime();
    const type = z.enum(events.filter((event) => event !== "output").map((event) => `${kind}.${event}`));
    const message = z.object({ type, timestamp, data: schemas.records[kind] }).openapi(`${name}Message`);
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
        summary: `What the Webhook-URL of a ${noun} is told`,
        description:
          "Signed as Standard Webhooks (standardwebhooks.com) says. Told again until it is answered with success, or 410, if it is the end; outcomes and outputs beyond 1 MiB are left out, with `truncated` in their place.",
        request: {
          headers: z.object(signed),
          body: {
            required: true,
            content: { "application/json": { schema: event === "output" ? outputMessage : message } },
          },
        },
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
    responses: { 200: json(healthSchema, "It runs", { example: { status: "live" } }), ...fails() },
  });
  register({
    method: "get",
    path: "/health/ready",
    operationId: "getReadiness",
    tags: ["Operations"],
    summary: "Whether predictions are taken",
    description: "Not before the model is set up, nor when the server stops.",
    request,
    responses: { 200: json(healthSchema, "They are taken", { example: { status: "ready" } }), ...fails("not_ready") },
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
      ...fails("not_ready"),
    },
  });
}
