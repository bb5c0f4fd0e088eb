/** Creates the Hono app of a front: the checks of all requests, and the routes of all models. */
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { METHOD_NAME_ALL } from "hono/router";
import { getPathNoStrict } from "hono/utils/url";
import { isLogged, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import type { ApiKeys } from "./access/api-keys.ts";
import { addControlRoutes, type ControlOptions } from "./admin.ts";
import { addApis } from "./apis/apis.ts";
import { guardsOf } from "./guards.ts";
import type { MetricsText, RequestMetrics } from "./metrics.ts";
import { addPage, pageRoute } from "./page/page.ts";
import { type Problem, ProblemError, problemOf, problemResponse, problemStatus, refusalOf } from "./problem.ts";
import { contextOf, modelOf, RequestContext, urlOf } from "./request.ts";
import { addRoutes, type Route } from "./route.ts";
import { addDocsPage, addDocument, addFavicon } from "./routes/docs.ts";
import { healthRoutes, metricsRoute } from "./routes/health.ts";
import { modelRoutes } from "./routes/model.ts";
import { modelsRoute, unknownName } from "./routes/models.ts";
import { outputFileRoutes } from "./routes/output-files.ts";
import { type PredictionRoutes, predictionRoutes } from "./routes/predictions.ts";
import type { ServedName, ServedNames } from "./served-model.ts";

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
];
/** Seconds that browsers may cache the answer to a CORS preflight. Chromium allows at most two hours. */
const PREFLIGHT_S = 7200;

/** Answers a request, after it has found the model of the request. */
export type App = (request: Request, context: RequestContext) => Response | Promise<Response>;

export function createApp(options: AppOptions): App {
  const { names, metrics, config, keys, onInternalError } = options;
  const hasKeys = keys !== undefined;
  const app = new Hono({ getPath: (_, found) => pathFor(found?.env) });
  addGuards(app, options);
  const routes = routesOf(options);
  if (config.api.includes("page")) addPage(app, { names, hasKeys });
  addRoutes(app, routes);
  addFavicon(app);
  if (config.api.includes("docs")) {
    addDocsPage(app, hasKeys);
    addDocument(app, routes, options);
  }
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
  const { names, config, lifecycle, otherFronts } = options;
  const hasKeys = options.keys !== undefined;
  // Every front reads the queue, so no front forwards a request to another.
  const ofPredictions = { ...options, otherFronts: options.isQueued ? undefined : otherFronts };
  return [
    ...modelRoutes,
    ...(config.api.includes("page") ? [pageRoute({ hasKeys, lifecycle })] : []),
    ...predictionRoutes(ofPredictions),
    ...outputFileRoutes(ofPredictions),
    modelsRoute(names, config),
    ...healthRoutes(lifecycle),
    metricsRoute(options.allMetrics, otherFronts),
  ];
}

/** Returns a function that sets the model of a request, and the path that the router matches. */
function modelFinder({
  config: { basePath },
  keys,
  names,
}: Pick<AppOptions, "config" | "keys" | "names">): (request: Request, context: RequestContext) => void {
  return (request, context) => {
    const full = pathOf(request);
    const path = basePath === "" ? full : withoutPrefix(full, basePath);
    context.path = path;
    context.served = names.list[0];
    if (path.includes("/models/")) findNamed(path, request, context);
  };

  function findNamed(path: string, request: Request, context: RequestContext): void {
    context.key ??= keys?.find(request.headers);
    if (keys !== undefined && context.key === undefined) {
      findWithoutKey(path, context);
      return;
    }
    const below = nameBelow("/models/", path);
    const found = below ?? nameBelow("/v2/models/", path);
    if (found !== undefined) {
      const { served, rest } = found;
      context.served = served;
      context.metrics = served.metrics;
      context.modelPath = `/models/${served.name}`;
      if (below !== undefined) context.path = rest === "" ? "/" : rest;
    } else if (path.startsWith("/models/")) context.served = undefined;
  }

  /** Finds no name for a request without a valid API key, so that the answer does not tell which names exist. */
  function findWithoutKey(path: string, context: RequestContext): void {
    // The page and the documentation ask for the key. Both contain no facts about a model, so any model can answer.
    const [, open] = /^\/models\/.+(\/(?:demo|docs)(?:\/assets\/.*)?)$/.exec(path) ?? [];
    if (open === undefined) return;
    context.path = open;
    context.served = names.list.find(({ model }) => !(model instanceof ProblemError)) ?? names.list[0];
  }

  /** The name in a path after `start`. The longest name wins, because names may contain slashes. */
  function nameBelow(start: string, path: string): { readonly served: ServedName; readonly rest: string } | undefined {
    if (!path.startsWith(start)) return undefined;
    for (let end = path.length; end > start.length; end = path.lastIndexOf("/", end - 1)) {
      const served = names.named(path.slice(start.length, end));
      if (served !== undefined) return { served, rest: path.slice(end) };
    }
    return undefined;
  }
}

/** The decoded path of a request, without a slash at its end. */
function pathOf(request: Request): string {
  const url = urlOf(request);
  const path = getPathNoStrict(url === request.url ? request : new Request(url));
  return url.includes("%") ? (decodedPath(url) ?? path) : path;
}

/** Hono leaves the escapes of `:`, `/`, `@` and the like, which clients write in the name of a model. */
function decodedPath(url: string): string | undefined {
  const { pathname } = new URL(url);
  try {
    return decodeURIComponent(pathname).replace(/(?<=.)\/$/, "");
  } catch {
    return undefined;
  }
}

function withoutPrefix(path: string, prefix: string): string {
  if (path === prefix) return "/";
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
}

function pathFor(env: unknown): string {
  return env instanceof RequestContext ? env.path : "/";
}

/** Adds the middleware in front of all routes: CORS headers, and the guards. */
function addGuards(app: Hono, options: AppOptions): void {
  const { corsOrigin } = options.config;
  const guards = guardsOf(options);
  if (corsOrigin !== undefined) {
    const origin = corsOrigin.includes("*") ? "*" : [...corsOrigin];
    const allowMethods = ["GET", "HEAD", "POST", "PUT"];
    const allowing = cors({ origin, allowMethods, exposeHeaders, maxAge: PREFLIGHT_S });
    app.use((c, next) => (contextOf(c).isAdmin ? next() : allowing(c, next)));
  }
  // All guards share a middleware, because each middleware costs every request some promises.
  app.use((c, next) => {
    for (const check of guards) check(c);
    return next();
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
