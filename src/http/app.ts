/** Creates the Hono app of a front: the checks of all requests, and the routes of all models. */
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { METHOD_NAME_ALL } from "hono/router";
import { isLogged, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import type { ApiKeys } from "./access/api-keys.ts";
import { requireKey } from "./access/require-key.ts";
import { addControlRoutes, type ControlOptions, separatePorts } from "./admin.ts";
import { addApis } from "./apis/apis.ts";
import { refuseForeignOrigins, refuseOtherHosts } from "./browser-guards.ts";
import { modelFinder } from "./find-model.ts";
import type { MetricsText, RequestMetrics } from "./metrics.ts";
import { documentOf } from "./openapi/document.ts";
import { addPage, isForPage, pageRoute } from "./page/page.ts";
import { type Problem, ProblemError, problemOf, problemResponse, problemStatus, refusalOf } from "./problem.ts";
import { contextOf, modelOf, perModel, RequestContext } from "./request.ts";
import { addRoutes, type Route } from "./route.ts";
import { addDocsRoutes, addFavicon } from "./routes/docs.ts";
import { healthRoutes, metricsRoute, refuseUntilReady } from "./routes/health.ts";
import { modelRoutes } from "./routes/model.ts";
import { modelsRoute, unknownName } from "./routes/models.ts";
import { outputFileRoutes } from "./routes/output-files.ts";
import { type PredictionRoutes, predictionRoutes } from "./routes/predictions.ts";
import type { ServedNames } from "./served-model.ts";

export interface AppOptions extends PredictionRoutes, ControlOptions {
  readonly names: ServedNames;
  readonly keys: ApiKeys | undefined;
  /** Counts the requests that no model answers. */
  readonly metrics: RequestMetrics;
  /** The metrics of the server and of all models, for GET /metrics. */
  readonly allMetrics: MetricsText;
  /** Whether the predictions are in the queue, where every front finds them. Otherwise each front has its own predictions. */
  readonly isQueued: boolean;
  readonly version: string;
  /** Called with internal errors and with faults of the store of predictions, whose details the client does not get. */
  readonly onInternalError: (error: unknown, context: RequestContext) => void;
}

/** Response headers that CORS lets scripts of other origins read. */
const exposeHeaders = [
  "Location",
  "Retry-After",
  "X-Request-Id",
  "X-Model",
  "Preference-Applied",
  "Allow",
  "Accept-Encoding",
  "ETag",
  "Content-Range",
];
/** Seconds that browsers may cache the answer to a CORS preflight. Chromium allows at most two hours. */
const PREFLIGHT_S = 7200;

/** Answers a request, after it has found the model of the request. */
export type App = (request: Request, context: RequestContext) => Response | Promise<Response>;

export function createApp(options: AppOptions): App {
  const { names, metrics, config, keys, onInternalError } = options;
  const hasKeys = keys !== undefined;
  const app = new Hono({ getPath: (_, found) => pathFor(found?.env) });
  addChecks(app, options);
  const routes = routesOf(options);
  if (config.api.includes("page")) addPage(app, { names, hasKeys });
  addRoutes(app, routes);
  addFavicon(app);
  if (config.api.includes("docs")) addDocument(app, routes, options);
  if (config.adminPort !== undefined) addControlRoutes(app, options);
  const refused = (c: Context, error: unknown): Problem => {
    const problem = problemOf(error);
    const context = contextOf(c);
    if (problem.code === "internal" || problem.code === "predictions_unusable") onInternalError(error, context);
    (context.served?.metrics ?? metrics).rejected(refusalOf(problem));
    logRefusal(c, problem);
    return problem;
  };
  const apiError = addApis(app, { ...options, hasKeys, refused });
  app.notFound((c) => {
    const { path } = contextOf(c);
    if (path.startsWith("/models/")) throw unknownName(names, path.slice("/models/".length));
    // All paths of a model that cannot answer have its error.
    modelOf(c);
    throw new ProblemError(unknownRoute(app, c));
  });
  app.onError((error, c) => {
    const problem = refused(c, error);
    return apiError(c, problem, error) ?? problemResponse(c, problem);
  });
  const find = modelFinder({ config, keys, names });
  return (request, context) => {
    find(request, context);
    return app.fetch(request, context);
  };
}

type RouteOptions = PredictionRoutes & Pick<AppOptions, "names" | "keys" | "lifecycle" | "allMetrics" | "isQueued">;

/** The table of routes, except the routes that the OpenAPI document leaves out. */
export function routesOf(options: RouteOptions): Route[] {
  const { names, config, lifecycle, siblings } = options;
  const hasKeys = options.keys !== undefined;
  // Every front reads the queue, so no front forwards a request to another.
  const ofPredictions = { ...options, siblings: options.isQueued ? undefined : siblings };
  return [
    ...modelRoutes,
    ...(config.api.includes("page") ? [pageRoute({ hasKeys, lifecycle })] : []),
    ...predictionRoutes(ofPredictions),
    ...outputFileRoutes(ofPredictions),
    modelsRoute(names, config),
    ...healthRoutes(lifecycle),
    metricsRoute(options.allMetrics, siblings),
  ];
}

function pathFor(env: unknown): string {
  return env instanceof RequestContext ? env.path : "/";
}

/** Adds the middleware in front of all routes: CORS headers, and the checks of host name, origin, port, API key and state. */
function addChecks(app: Hono, { config, keys, lifecycle }: AppOptions): void {
  const { corsOrigin } = config;
  if (corsOrigin !== undefined) {
    const origin = corsOrigin.includes("*") ? "*" : [...corsOrigin];
    const allowMethods = ["GET", "HEAD", "POST", "PUT"];
    const allowing = cors({ origin, allowMethods, exposeHeaders, maxAge: PREFLIGHT_S });
    app.use((c, next) => (contextOf(c).isAdmin ? next() : allowing(c, next)));
  }
  const checks = [refuseOtherHosts(config, keys), refuseForeignOrigins(corsOrigin)];
  if (config.adminPort !== undefined) checks.push(separatePorts);
  if (keys !== undefined) checks.push(requireKey(keys));
  checks.push(refuseUntilReady(lifecycle, (c) => config.api.includes("page") && isForPage(c)));
  // One middleware for all checks: each further middleware costs every request some promises.
  app.use((c, next) => {
    for (const check of checks) check(c);
    return next();
  });
}

/** Adds GET /docs and GET /openapi.json. The document of a model is made at the first request for it. */
function addDocument(app: Hono, routes: readonly Route[], { config, keys, version }: AppOptions): void {
  const hasKeys = keys !== undefined;
  const hasWebhooks = config.webhookSecret.length > 0;
  const documentsOf = perModel(() => new Map<string, string>());
  addDocsRoutes(app, hasKeys);
  app.get("/openapi.json", (c) => {
    const documents = documentsOf(c);
    const { modelPath } = contextOf(c);
    let text = documents.get(modelPath);
    if (text === undefined) {
      const basePath = `${config.basePath}${modelPath}`;
      const isOfServer = modelPath === "";
      text = JSON.stringify(documentOf(routes, modelOf(c), { version, basePath, hasKeys, hasWebhooks, isOfServer }));
      documents.set(modelPath, text);
    }
    return c.body(text, 200, { "Content-Type": "application/json" });
  });
}

/**
 * Logs a refused request: as a warning for overload (429) and unavailability (503), which concern the operator, else at `debug`. Refused health
 * probes are logged at `debug`, since they repeat.
 */
function logRefusal(c: Context, problem: Problem): void {
  const status = problemStatus(problem);
  const context = contextOf(c);
  const { path } = context;
  const cause = refusalOf(problem);
  const line = () =>
    `${c.req.method} ${context.encodedPath} was refused with ${status} (${cause}): ${JSON.stringify(problem.detail)}`;
  if ((status === 429 || status === 503) && !path.startsWith("/health/")) {
    logLimit.write(cause, (...more) => log.warn(line(), ...more, context.fields({ status })));
  } else if (isLogged("debug")) {
    log.debug(line(), context.fields({ status }));
  }
}

function nothingAt(path: string, hasDocs = false): Problem {
  const hint = hasDocs ? "; GET /docs shows what there is" : "";
  return { code: "not_found", detail: `there is nothing at ${path}${hint}` };
}

/** The error for a path or method without a route: 405 with `Allow` if the path has other methods, else 404. */
function unknownRoute(app: Hono, c: Context): Problem {
  const { method } = c.req;
  const { path } = contextOf(c);
  const methods = new Set(app.routes.map((route) => route.method));
  // Hono lists middleware as a route for all methods.
  methods.delete(METHOD_NAME_ALL);
  const allowed = [...methods].filter((other) =>
    app.router.match(other, path)[0].some(([[, route]]) => route.method === other),
  );
  if (allowed.length === 0)
    return nothingAt(
      path,
      app.routes.some((route) => route.path === "/docs"),
    );
  const allow = (allowed.includes("GET") ? ["HEAD", ...allowed] : allowed).join(", ");
  return {
    code: "method_not_allowed",
    detail: `${path} takes ${allow}, not ${method}`,
    headers: { Allow: allow },
  };
}
