/** The routes of a server with several models: the list of models, Triton's model repository, and answers for models that cannot be opened. */

import type { Context } from "hono";
import { Hono } from "hono";
import type { ModelState } from "../../base/labels.ts";
import { addControlRoutes, type ControlOptions, INDEX } from "../admin.ts";
import { statisticsOf } from "../apis/v2/statistics.ts";
import { errorAnswer as v2Error } from "../apis/v2/v2.ts";
import { type GuardOptions, guard, logRefusal } from "../app.ts";
import type { OnHold } from "../client.ts";
import type { MetricsText, RequestMetrics } from "../metrics.ts";
import { listPage, prefersHtml } from "../page/page.ts";
import { ProblemError, problemOf, problemResponse, refusalOf } from "../problem.ts";
import { pathsBelow } from "../request.ts";
import type { ServedModel } from "../served-model.ts";
import type { Siblings } from "../siblings.ts";
import { addHealthRoutes, addMetricsRoute } from "./health.ts";

export interface ListedModel {
  /** Name in paths, `/models/NAME`. */
  readonly name: string;
  readonly state: ModelState;
  /** Why the model could not be opened or loaded; undefined without an error. */
  readonly reason: string | undefined;
  readonly metrics: RequestMetrics;
  /** Data of the model for clients; undefined if the model could not be opened. */
  readonly served: ServedModel | undefined;
  readonly tag: string;
  readonly digest: string;
}

export interface BrokenAppOptions extends GuardOptions {
  readonly basePath: string;
  /** Counts the requests that the app refuses. */
  readonly metrics: Pick<RequestMetrics, "rejected">;
}

/** Loads a model into memory, and unloads it. */
export interface ModelMoves {
  load(): Promise<void>;
  unload(): Promise<void>;
}

export interface ModelsAppOptions extends BrokenAppOptions {
  readonly models: () => readonly ListedModel[];
  /** Finds the loader of a model; undefined if models stay loaded as long as the server runs. */
  readonly engineOf: (name: string) => ModelMoves | undefined;
  readonly onHold: OnHold;
}

/** Options of the routes of the whole server: health checks, metrics, and stopping or upgrading the server. */
export interface ServerRoutes extends ControlOptions {
  readonly allMetrics: MetricsText;
  readonly siblings: Siblings | undefined;
}

/**
 * The app for a model that could not be opened, or for a server that only works on a queue (--role worker). Answers `refusal` at all paths without a
 * route.
 * @param server adds health checks, metrics and control of the whole server
 */
export function createBrokenApp(options: BrokenAppOptions, refusal: ProblemError, server?: ServerRoutes): Hono {
  const app = guarded(options);
  if (server !== undefined) {
    addHealthRoutes(app, server.lifecycle);
    addMetricsRoute(app, server.allMetrics, server.siblings);
    if (options.config.adminPort !== undefined) addControlRoutes(app, server);
  }
  app.notFound(() => {
    throw refusal;
  });
  return app;
}

export function brokenModel(reason: string): ProblemError {
  return new ProblemError({ code: "not_ready", detail: `the model cannot be served: ${reason}` });
}

export const workerRefusal = new ProblemError({
  code: "not_found",
  detail: "this replica is a worker (--role worker), which has /health and /metrics only; ask a front",
});

export function createModelsApp(options: ModelsAppOptions): Hono {
  const { models, basePath } = options;
  const app = guarded(options);
  app.get("/models", async (c) => {
    return prefersHtml(c) ? listPage(c, models()) : c.json(listOf(models(), basePath));
  });
  if (options.config.api.includes("v2")) addRepositoryRoutes(app, options);
  app.notFound((c) => {
    throw nothingAt(c);
  });
  return app;

  function nothingAt(c: Context): ProblemError {
    const [, name] = /^\/models\/(.+)$/.exec(c.req.path) ?? [];
    return name === undefined ? missing(`there is nothing at ${c.req.path}`) : unknown(models(), name);
  }
}

/** Adds the routes of Triton's model repository, and the statistics of all models. */
function addRepositoryRoutes(app: Hono, { models, engineOf, onHold, config, keys }: ModelsAppOptions): void {
  app.get("/v2/models/stats", (c) =>
    c.json({ model_stats: models().map(({ name, metrics: own }) => statisticsOf(own, name)) }),
  );
  app.post(INDEX, (c) => c.json(models().map(repositoryEntry)));
  app.post("/v2/repository/models/:path{.+}", async (c, next) => {
    const [, name = "", move] = /^(.+)\/(load|unload)$/.exec(c.req.param("path")) ?? [];
    if (move !== "load" && move !== "unload") return next();
    if (!takesMoves({ config, keys })) {
      throw missing("models are loaded and unloaded at the admin port (--admin-port), or with an API key (--api-keys)");
    }
    const engine = engineOf(named(models(), name).name);
    if (engine !== undefined) {
      onHold(c.req.raw, true);
      await engine[move]().finally(() => onHold(c.req.raw, false));
    } else if (move === "unload") throw refused("the models of this server stay loaded as long as the server runs");
    return c.body(null, 200);
  });
}

/** Whether a request may load and unload models: at the admin port, or with a key that permits `admin`. Nobody may do so at a port for everybody. */
function takesMoves({ config, keys }: GuardOptions): boolean {
  return config.adminPort !== undefined || keys !== undefined;
}

/** An app with the checks and error answers, but without routes. */
function guarded({ basePath, metrics, ...options }: BrokenAppOptions): Hono {
  const app = new Hono({ getPath: pathsBelow(basePath) });
  guard(app, options);
  app.onError((error, c) => {
    const problem = problemOf(error);
    metrics.rejected(refusalOf(problem));
    logRefusal(c, problem);
    return c.req.path.startsWith("/v2/") ? v2Error(c, problem) : problemResponse(c, problem);
  });
  return app;
}

/** The JSON of GET /models. */
function listOf(models: readonly ListedModel[], basePath: string) {
  return {
    models: models.map(({ name, tag, digest, state, reason, served }) => ({
      name,
      tag,
      digest,
      description: served?.description ?? "",
      state,
      ...(reason === undefined ? {} : { reason }),
      url: `${basePath}/models/${name}`,
    })),
  };
}

/** An entry in the answer of Triton's POST /v2/repository/index. */
function repositoryEntry({ name, tag, state, reason }: ListedModel) {
  if (state === "ready") return { name, version: tag, state: "READY" };
  return { name, version: tag, state: state === "loading" ? "LOADING" : "UNAVAILABLE", reason: reason ?? state };
}

function named(models: readonly ListedModel[], name: string): ListedModel {
  const found = models.find((model) => model.name === name);
  if (found === undefined) throw unknown(models, name);
  return found;
}

function unknown(models: readonly ListedModel[], name: string): ProblemError {
  return missing(
    `there is no model ${JSON.stringify(name)}; this server has ${models.map((model) => model.name).join(", ")}`,
  );
}

function missing(detail: string): ProblemError {
  return new ProblemError({ code: "not_found", detail });
}

function refused(detail: string): ProblemError {
  return new ProblemError({ code: "method_not_allowed", detail });
}
