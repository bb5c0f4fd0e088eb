/** The app of a front. A request takes three steps: its model is found, the guards check the request, and a route of the router answers. */
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { METHOD_NAME_ALL } from "hono/router";
import { isLogged, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import type { ApiKeys } from "./access/api-keys.ts";
import { addReload, type ControlOptions } from "./admin.ts";
import { addApis } from "./apis/apis.ts";
import { modelFinder } from "./find-model.ts";
import { guardOf } from "./guards.ts";
import type { MetricsText, RequestMetrics } from "./metrics.ts";
import { addPage, pageRoute } from "./page/page.ts";
import { type Problem, ProblemError, problemOf, problemResponse, problemStatus, refusalOf } from "./problem.ts";
import { contextOf, modelOf, RequestContext } from "./request.ts";
import { addRoutes, type Route } from "./route.ts";
import { addDocsPage, addDocument, addFavicon } from "./routes/docs.ts";
import { healthRoutes, metricsRoute } from "./routes/health.ts";
import { modelRoutes } from "./routes/model.ts";
import { modelsRoute, unknownName } from "./routes/models.ts";
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

export interface App {
  /** Answers a request. The promise may reject: `refused` answers then. */
  answer(request: Request, context: RequestContext): Response | Promise<Response>;
  /** The answer to a request that failed with an error. */
  refused(error: unknown, request: Request, context: RequestContext): Response | Promise<Response>;
}

export function createApp(options: AppOptions): App {
  const find = modelFinder(options);
  const guard = guardOf(options);
  const routes = routesOf(options);
  const router = routerOf(options, routes);
  const posts = directPosts(options, routes);
  const refused: App["refused"] = (error, request, context) => {
    context.refusal = error;
    return router.fetch(request, context);
  };
  const answer: App["answer"] = (request, context) => {
    try {
      find(context);
      guard(context);
      const post = request.method === "POST" ? posts.get(context.path) : undefined;
      return post === undefined ? router.fetch(request, context) : post(context);
    } catch (error) {
      return refused(error, request, context);
    }
  };
  return { answer, refused };
}

/** The routes that need no router, by path. The router adds the headers of CORS, so with --cors-origin it has all routes. */
function directPosts({ config }: AppOptions, routes: readonly Route[]): ReadonlyMap<string, Route["direct"]> {
  const direct = routes.filter((route) => route.direct !== undefined && config.corsOrigin === undefined);
  return new Map(direct.map((route) => [route.path, route.direct]));
}

/** The router matches this path for a request that a guard refuses, so the headers of CORS are on refusals, too. */
const REFUSED = "/refused";

/** The path that the router matches. */
function pathFor(context: unknown): string {
  if (!(context instanceof RequestContext)) return "/";
  return context.refusal === undefined ? context.path : REFUSED;
}

/** The router with all routes. Only --cors-origin adds middleware, because each middleware costs every request some promises. */
function routerOf(options: AppOptions, routes: readonly Route[]): Hono {
  const { names, metrics, config, keys, onInternalError } = options;
  const hasKeys = keys !== undefined;
  const app = new Hono({ getPath: (_, found) => pathFor(found?.env) });
  if (config.corsOrigin !== undefined) addCors(app, config.corsOrigin);
  app.all(REFUSED, (c) => {
    throw contextOf(c).refusal ?? nothingAt(REFUSED);
  });
  if (config.api.includes("page")) addPage(app);
  addRoutes(app, routes);
  addFavicon(app);
  if (config.api.includes("docs")) {
    addDocsPage(app, hasKeys);
    addDocument(app, routes, options);
  }
  if (config.adminPort !== undefined) addReload(app, options);
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
    throw unknownRoute(app, c);
  });
  app.onError((error, c) => {
    const problem = refused(c, error);
    return apiError(c, problem, error) ?? problemResponse(c, problem);
  });
  return app;
}

type RouteOptions = PredictionRoutes & Pick<AppOptions, "names" | "keys" | "lifecycle" | "allMetrics" | "isQueued">;

/** The table of routes, except the routes that the OpenAPI document leaves out. */
export function routesOf(options: RouteOptions): Route[] {
  const { names, config, lifecycle, otherFronts } = options;
  const hasKeys = options.keys !== undefined;
  return [
    ...modelRoutes,
    ...(config.api.includes("page") ? [pageRoute(hasKeys)] : []),
    // Every front reads the queue, so no front forwards a request to another.
    ...predictionRoutes({ ...options, otherFronts: options.isQueued ? undefined : otherFronts }),
    modelsRoute(names, config),
    ...healthRoutes(lifecycle),
    metricsRoute(options.allMetrics, otherFronts),
  ];
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
];
/** Seconds that browsers may cache the answer to a CORS preflight. Chromium allows at most two hours. */
const PREFLIGHT_S = 7200;

/** Allows pages of other origins to read answers of the public port. */
function addCors(app: Hono, origins: readonly string[]): void {
  const origin = origins.includes("*") ? "*" : [...origins];
  const allowMethods = ["GET", "HEAD", "POST", "PUT"];
  const allowing = cors({ origin, allowMethods, exposeHeaders, maxAge: PREFLIGHT_S });
  app.use((c, next) => (contextOf(c).isAdmin ? next() : allowing(c, next)));
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

function nothingAt(path: string, hint = ""): ProblemError {
  return new ProblemError({ code: "not_found", detail: `there is nothing at ${path}${hint}` });
}

/** The error for a path or method without a route: 405 with `Allow` if the path has other methods, else 404. */
function unknownRoute(app: Hono, c: Context): ProblemError {
  const { path } = contextOf(c);
  // Hono lists middleware as a route for all methods.
  const methods = new Set(app.routes.map(({ method }) => method).filter((method) => method !== METHOD_NAME_ALL));
  const allowed = [...methods].filter((other) =>
    app.router.match(other, path)[0].some(([[, route]]) => route.method === other),
  );
  if (allowed.length === 0) {
    const hasDocs = app.routes.some((route) => route.path === "/docs");
    return nothingAt(path, hasDocs ? "; GET /docs shows what there is" : "");
  }
  const allow = (allowed.includes("GET") ? ["HEAD", ...allowed] : allowed).join(", ");
  return new ProblemError({
    code: "method_not_allowed",
    detail: `${path} takes ${allow}, not ${c.req.method}`,
    headers: { Allow: allow },
  });
}
