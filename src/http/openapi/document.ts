/** Makes the OpenAPI document of a model from the table of routes. The routes validate bodies themselves, to report every fault. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { families } from "../record-json.ts";
import type { Route } from "../route.ts";
import type { ServedModel } from "../served-model.ts";
import { type Facts, operationOf } from "./operation.ts";
import { formSchema, modelSchemas } from "./schemas.ts";

export interface DocumentOptions extends Omit<Facts, "schemas" | "example"> {
  readonly version: string;
}

type Model = Pick<
  ServedModel,
  "name" | "tag" | "description" | "inputSchema" | "outputSchema" | "demoOutputSchema" | "shortExample" | "maxInputs"
>;

export function documentOf(routes: readonly Route[], model: Model, { version, ...options }: DocumentOptions) {
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
    const operation = describe?.(facts);
    return operation === undefined ? [] : { ...operationOf(operation, facts), method, path };
  });
  for (const route of described) registry.registerPath(route);
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
    servers: [serverAt("/")],
    security: hasKeys ? [{ apiKey: [] }] : [],
    tags: [
      { name: "Model", description: "The model of this server, and the list of its models" },
      ...families.map(({ tag, tagDescription }) => ({ name: tag, description: tagDescription })),
      { name: "Operations", description: "Health, for operators" },
    ],
  });
}

/** A server of the document. @param url the path before the routes */
export function serverAt(url: string) {
  return { url, description: "This server" };
}
