/** Describes the routes of a server with several models in the OpenAPI document: the list of models, and loading and unloading a model. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { modelStates } from "../../base/labels.ts";
import { fails, failsWith, json } from "./answers.ts";
import type { DescribedApi } from "./api-routes.ts";
import { answered, traced } from "./headers.ts";

interface ModelRoutesOptions {
  readonly names: readonly string[];
  readonly hasKeys: boolean;
  /** Whether the port loads and unloads models, for keys that permit it. The routes of the admin port are not documented. */
  readonly hasMoves: boolean;
}

const listSchema = z
  .object({
    models: z.array(
      z
        .object({
          name: z.string(),
          tag: z.string(),
          digest: z.string(),
          description: z.string(),
          state: z.enum(modelStates),
          reason: z.string().optional().openapi({ description: "Why the model could not be opened or loaded" }),
          url: z.string().openapi({ description: "The path before the routes of the model" }),
        })
        .openapi("ListedModel"),
    ),
  })
  .openapi("ModelList");

const errorSchema = z.object({ error: z.string() }).openapi("RepositoryError");
const moveFaults = {
  400: "The request is malformed",
  403: "A page of another origin may not change the server, or the API key does not permit it",
  404: "The server has no model of this name",
  503: "The model could not be loaded",
};

export function describedModels({ names, hasKeys, hasMoves }: ModelRoutesOptions): DescribedApi {
  const tag = { name: "Models", description: "The models of this server" };
  const request = { headers: z.object(traced) };
  const list: RouteConfig = {
    method: "get",
    path: "/models",
    operationId: "listModels",
    tags: [tag.name],
    summary: "The models of this server",
    description: "Each model has all routes below its `url`. Browsers (`Accept: text/html`) get a page.",
    request,
    responses: {
      200: json(listSchema, "The models, the first of which answers paths without a name"),
      ...fails("not_ready", ...(hasKeys ? (["key_required", "key_unknown", "key_refused"] as const) : [])),
    },
  };
  if (!hasMoves) return { tag, routes: [list] };
  return { tag, routes: [list, moveRoute("load", names), moveRoute("unload", names)] };
}

function moveRoute(move: "load" | "unload", names: readonly string[]): RouteConfig {
  return {
    method: "post",
    path: `/v2/repository/models/{model}/${move}`,
    operationId: `${move}Model`,
    tags: ["Models"],
    summary: move === "load" ? "Load a model" : "Unload a model",
    description:
      move === "load"
        ? "Answers when the model is ready, as Triton does. A loaded model stays loaded."
        : "Answers when the predictions of the model have ended and its memory is free, as Triton does. The next prediction loads the model again.",
    request: {
      params: z.object({
        model: z.enum(names).openapi({ description: "Slashes may be percent-encoded", example: names.at(-1) }),
      }),
      headers: z.object(traced),
    },
    responses: {
      200: { description: "Done", headers: z.object(answered) },
      ...failsWith([400, 401, 403, 404, 500, 503], errorSchema, moveFaults),
    },
  };
}
