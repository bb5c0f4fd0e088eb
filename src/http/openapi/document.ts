/** Makes the OpenAPI document of a model from the table of routes. The routes validate bodies themselves, to report every fault. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { webhookEvents } from "../../predictions/webhooks/webhook.ts";
import { type Family, families } from "../record-json.ts";
import type { Route } from "../route.ts";
import type { ServedModel } from "../served-model.ts";
import { type Facts, operationOf, text } from "./operation.ts";
import { formSchema, type ModelSchemas, modelSchemas } from "./schemas.ts";

export interface DocumentOptions extends Omit<Facts, "schemas" | "example"> {
  readonly version: string;
  /** Path before the routes. */
  readonly basePath: string;
}

type Model = Pick<
  ServedModel,
  "name" | "tag" | "description" | "inputSchema" | "outputSchema" | "demoOutputSchema" | "partSchema" | "shortExample"
>;

export function documentOf(routes: readonly Route[], model: Model, { version, basePath, ...options }: DocumentOptions) {
  const document = new OpenAPIHono();
  const registry = document.openAPIRegistry;
  const { name, tag, description, shortExample: example } = model;
  const { hasKeys } = options;
  const schemas = modelSchemas(model);
  const facts = { ...options, schemas, example };
  if (hasKeys) {
    registry.registerComponent("securitySchemes", "apiKey", {
      type: "http",
      scheme: "bearer",
      description: "An API key of this server. The header X-API-Key takes it, too.",
    });
  }
  const form = formSchema(schemas.definitions.get("Input") ?? {}, example);
  for (const [component, schema] of [...schemas.definitions, ["InputForm", form] as const]) {
    registry.registerComponent("schemas", component, schema);
  }
  const described = routes.flatMap(({ method, path, describe }) => {
    const operation = describe(facts);
    return operation === undefined ? [] : { ...operationOf(operation, facts), method, path };
  });
  for (const route of described) registry.registerPath(route);
  for (const family of families) for (const each of messagesOf(family, schemas)) registry.registerWebhook(each);
  const info = {
    title: name,
    // Client generators need a semantic version. The text after `+` is build metadata, which does not affect the order of versions.
    version: `${version}+${tag}`,
    description: description || `The model ${name}, served by sconce ${version}.`,
    contact: { name: "The operator of this server" },
    license: { name: "Apache-2.0, of the server; the model may have another", identifier: "Apache-2.0" },
  };
  return document.getOpenAPI31Document({
    openapi: "3.1.0",
    info,
    servers: [{ url: basePath || "/", description: "This server" }],
    security: hasKeys ? [{ apiKey: [] }] : [],
    tags: [
      { name: "Model", description: "The model of this server, and the list of its models" },
      ...families.map(({ tag, tagDescription }) => ({ name: tag, description: tagDescription })),
      // Client generators write a file per tag. Webhooks under the tag of the routes would overwrite the file with the routes.
      { name: "Webhooks", description: "Messages that the server sends" },
      { name: "Operations", description: "Health and metrics, for operators" },
    ],
  });
}

const signed = z.object({
  "webhook-id": text("The same for every attempt to send a message"),
  "webhook-timestamp": text("Time of this attempt, in seconds since 1970"),
  "webhook-signature": text("Signature according to Standard Webhooks"),
});

/** The messages to webhooks about predictions of one kind. */
function messagesOf({ kind, name, idName, noun }: Family, schemas: ModelSchemas) {
  const events = webhookEvents.filter((each) => kind === "demo" || each !== "log");
  const timestamp = z.iso.datetime();
  const type = z.enum(events.filter((event) => event !== "output").map((event) => `${kind}.${event}`));
  const message = z.object({ type, timestamp, data: schemas.sent[kind] }).openapi(`${name}Message`);
  const data = z.object({ [idName]: z.string(), outputs: schemas.newOutputs });
  const outputType = z.literal(`${kind}.output`);
  const outputMessage = z.object({ type: outputType, timestamp, data }).openapi(`${name}OutputMessage`);
  return events.map((event) => ({
    method: "post" as const,
    path: `${kind}.${event}`,
    operationId: `${event}${name}`,
    tags: ["Webhooks"],
    summary: `Message to the Webhook-URL of a ${noun}`,
    description:
      "Signed according to Standard Webhooks (standardwebhooks.com). The server repeats the last message until the answer is 2xx or 410. `truncated` replaces outcomes and outputs larger than 1 MiB.",
    request: {
      headers: signed,
      body: {
        required: true,
        content: { "application/json": { schema: event === "output" ? outputMessage : message } },
      },
    },
    responses: {
      200: { description: "Received" },
      410: { description: "The server sends no more messages about this prediction" },
    },
  }));
}
