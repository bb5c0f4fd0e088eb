/** The list of the served names, and Triton's model repository, which loads and unloads models. */
import { z } from "@hono/zod-openapi";
import type { Context, Hono } from "hono";
import { modelStates } from "../../base/labels.ts";
import { INDEX } from "../admin.ts";
import { json } from "../openapi/operation.ts";
import type { HttpOptions } from "../options.ts";
import { ProblemError } from "../problem.ts";
import { contextOf } from "../request.ts";
import type { Route } from "../route.ts";
import type { ServedName, ServedNames } from "../served-model.ts";

export interface RepositoryOptions {
  readonly names: ServedNames;
  readonly config: Pick<HttpOptions, "adminPort">;
  readonly hasKeys: boolean;
}

export function brokenModel(reason: string): ProblemError {
  return new ProblemError({ code: "not_ready", detail: `the model cannot be served: ${reason}` });
}

export const workerRefusal = new ProblemError({
  code: "not_found",
  detail: "this replica is a worker (--role worker), which has /health and /metrics only; ask a front",
});

const listedModel = z.object({
  name: z.string(),
  tag: z.string(),
  digest: z.string(),
  description: z.string(),
  state: z.enum(modelStates),
  reason: z.string().optional().openapi({ description: "Why the model could not be opened or loaded" }),
  url: z.string().openapi({ description: "The path before the routes of the model" }),
});
const modelList = z.object({ models: z.array(listedModel.openapi("ListedModel")) }).openapi("ModelList");

/** GET /models: the served names. */
export function modelsRoute(names: ServedNames, { basePath }: Pick<HttpOptions, "basePath">): Route {
  const listed = ({ name, tag, digest, state, reason, model }: ServedName): z.infer<typeof listedModel> => ({
    name,
    tag,
    digest,
    description: "description" in model ? model.description : "",
    state,
    ...(reason === undefined ? {} : { reason }),
    url: `${basePath}/models/${name}`,
  });
  return {
    method: "get",
    path: "/models",
    answer: (c) => c.json({ models: names.list.map(listed) }),
    describe: () => ({
      id: "listModels",
      tag: "Model",
      summary: "The models of this server",
      description: "Each model has all routes below its `url`.",
      answers: { 200: json(modelList, "The models, the first of which answers paths without a name") },
      fails: [503],
    }),
  };
}

/** Adds the routes of Triton's model repository. */
export function addRepositoryRoutes(app: Hono, { names, config, hasKeys }: RepositoryOptions): void {
  app.post(INDEX, (c) => c.json(namesFor(c, names).map(repositoryEntry)));
  app.post("/v2/repository/models/:path{.+}", async (c, next) => {
    const [, name = "", move] = /^(.+)\/(load|unload)$/.exec(c.req.param("path")) ?? [];
    if (move !== "load" && move !== "unload") return next();
    // At a public port without keys, no client may load or unload models.
    if (config.adminPort === undefined && !hasKeys) {
      throw missing("models are loaded and unloaded at the admin port (--admin-port), or with an API key (--api-keys)");
    }
    const served = names.list.find((each) => each.name === name);
    if (served === undefined) throw unknownName(names, name);
    const { moves } = served;
    if (moves !== undefined) {
      const context = contextOf(c);
      context.held(true);
      await moves[move]().finally(() => context.held(false));
    } else if (move === "unload") {
      const detail = "the models of this server stay loaded as long as the server runs";
      throw new ProblemError({ code: "method_not_allowed", detail });
    }
    return c.body(null, 200);
  });
}

/** The names that a request may mean: the name in its path, or else all names. */
export function namesFor(c: Context, names: ServedNames): readonly ServedName[] {
  const { modelPath, served } = contextOf(c);
  return modelPath !== "" && served !== undefined ? [served] : names.list;
}

/** An entry in the answer of Triton's POST /v2/repository/index. */
function repositoryEntry({ name, tag, state, reason }: ServedName) {
  if (state === "ready") return { name, version: tag, state: "READY" };
  return { name, version: tag, state: state === "loading" ? "LOADING" : "UNAVAILABLE", reason: reason ?? state };
}

export function unknownName({ list }: ServedNames, name: string): ProblemError {
  return missing(
    `there is no model ${JSON.stringify(name)}; this server has ${list.map((each) => each.name).join(", ")}`,
  );
}

function missing(detail: string): ProblemError {
  return new ProblemError({ code: "not_found", detail });
}
