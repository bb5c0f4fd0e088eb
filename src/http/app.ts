/** Creates the Hono app that serves one model, and the checks of requests that all apps share. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { cors } from "hono/cors";
import { METHOD_NAME_ALL } from "hono/router";
import { isLogged, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { ApiKeys } from "./access/api-keys.ts";
import { requireKey } from "./access/require-key.ts";
import { addControlRoutes, separatePorts } from "./admin.ts";
import type { BrokenModel, NamedModel } from "./apis/api.ts";
import { addApis } from "./apis/apis.ts";
import { refuseForeignOrigins, refuseOtherHosts } from "./browser-guards.ts";
import { LargeAnswers } from "./large-answers.ts";
import type { MetricsText, RequestMetrics } from "./metrics.ts";
import { describedApis } from "./openapi/api-routes.ts";
import { describeRoutes, documentOf } from "./openapi/document.ts";
import { describedModels } from "./openapi/model-routes.ts";
import { modelSchemas } from "./openapi/schemas.ts";
import type { HttpOptions } from "./options.ts";
import { addPageRoutes } from "./page/page.ts";
import { type Problem, ProblemError, problemOf, problemResponse, problemStatus, refusalOf } from "./problem.ts";
import { contextOf, pathsBelow, type RequestContext } from "./request.ts";
import { addDocsRoutes, addFavicon } from "./routes/docs.ts";
import type { Lifecycle } from "./routes/health.ts";
import { addHealthRoutes, addMetricsRoute } from "./routes/health.ts";
import { addOutputFileRoutes } from "./routes/output-files.ts";
import { addPredictionRoutes, type PredictionRoutes } from "./routes/predictions.ts";
import type { ServedModel } from "./served-model.ts";
import type { ServerControl } from "./server-control.ts";

export interface AppOptions extends Omit<PredictionRoutes, "large">, GuardOptions {
  readonly model: ServedModel;
  readonly metrics: RequestMetrics;
  /** The metrics of all models, for GET /metrics. */
  readonly allMetrics: MetricsText;
  /** The models that requests to the OpenAI API may name; by default only this model. */
  readonly named?: readonly (NamedModel<Predictions> | BrokenModel)[] | undefined;
  /** Names of all models, for the OpenAPI document of a server with several models; undefined with one model. */
  readonly modelNames?: readonly string[] | undefined;
  /** Relative URL to which GET / redirects browsers. */
  readonly home?: string;
  readonly lifecycle: Lifecycle;
  /** Whether the predictions are in the queue, where every front finds them. Default: each front has its own predictions. */
  readonly isQueued?: boolean;
  /** Whether a client has unloaded the model. Default: false. */
  readonly isUnloadedByClient?: (() => boolean) | undefined;
  readonly version: string;
  readonly control: ServerControl;
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

export function createApp(options: AppOptions): OpenAPIHono {
  const { model, metrics, lifecycle, siblings, version, config, onInternalError } = options;
  const app = new OpenAPIHono({ getPath: pathsBelow(options.basePath) });
  guard(app, options);
  const hasAdminPort = config.adminPort !== undefined;
  const hasMoves = options.keys !== undefined && !hasAdminPort && config.api.includes("v2");
  const schemas = modelSchemas(model);
  const hasKeys = options.keys !== undefined;
  const { modelNames: names } = options;
  const apis = [
    ...(names === undefined ? [] : [describedModels({ names, hasKeys, hasMoves })]),
    ...describedApis(model, { apis: config.api, hasKeys }),
  ];
  describeRoutes(app, {
    schemas,
    example: model.shortExample,
    hasKeys,
    hasWebhooks: config.webhookSecret.length > 0,
    hasPage: config.api.includes("page"),
    apis,
  });
  // Every front reads the queue, so no front forwards a request to another.
  const forwarding = options.isQueued ? undefined : siblings;
  const predictionRoutes: PredictionRoutes = {
    ...options,
    siblings: forwarding,
    large: new LargeAnswers(options.memory),
  };
  addPredictionRoutes(app, predictionRoutes);
  addOutputFileRoutes(app, predictionRoutes);
  addHealthRoutes(app, lifecycle);
  addFavicon(app);
  if (config.api.includes("docs")) addDocsRoutes(app, options.keys === undefined ? model.name : undefined);
  // The page needs no API key. On a server with keys, it therefore does not show the model's name and description.
  const shown = options.keys === undefined ? model : { name: "sconce", description: "" };
  if (config.api.includes("page")) addPageRoutes(app, { ...shown, isReady: true, home: options.home });
  app.get("/", (c) =>
    c.json({
      name: model.name,
      tag: model.tag,
      digest: model.digest,
      description: model.description,
      batch_size: model.batchSize,
      input_schema: model.inputSchema,
      output_schema: model.outputSchema,
      ...(model.partSchema === undefined ? {} : { part_schema: model.partSchema }),
      demo_output_schema: model.demoOutputSchema,
    }),
  );
  app.get("/examples", (c) => c.json(model.examples));
  addMetricsRoute(app, options.allMetrics, siblings);
  const { onHold = () => {}, peerOf = () => undefined } = options;
  if (hasAdminPort) addControlRoutes(app, { ...options, onHold });
  if (config.api.includes("docs"))
    app.doc31("/openapi.json", documentOf(model, { version, basePath: options.basePath, hasKeys, apis }));
  const refused = (c: Context, problem: Problem) => {
    metrics.rejected(refusalOf(problem));
    logRefusal(c, problem);
    return problem;
  };
  const refusedBy = (c: Context, error: unknown) => {
    const problem = problemOf(error);
    if (problem.code === "internal" || problem.code === "predictions_unusable") onInternalError(error, contextOf(c));
    return refused(c, problem);
  };
  const apiError = addApis(app, config.api, { ...options, onHold, peerOf, refused: refusedBy });
  app.notFound((c) => {
    throw new ProblemError(unknownRoute(app, c));
  });
  app.onError((error, c) => {
    const problem = refusedBy(c, error);
    return apiError(c, problem, error) ?? problemResponse(c, problem);
  });
  return app;
}

export interface GuardOptions {
  readonly config: HttpOptions;
  readonly keys?: ApiKeys | undefined;
}

/** Adds the middleware in front of all routes: CORS headers, and the checks of host name, origin, port and API key. */
export function guard(app: Pick<OpenAPIHono, "use">, { config, keys }: GuardOptions): void {
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
  // One middleware for all checks: each further middleware costs every request some promises.
  app.use((c, next) => {
    for (const check of checks) check(c);
    return next();
  });
}

/**
 * Logs a refused request: as a warning for overload (429) and unavailability (503), which concern the operator, else at `debug`. Refused health
 * probes are logged at `debug`, since they repeat.
 */
export function logRefusal(c: Context, problem: Problem): void {
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
function unknownRoute(app: OpenAPIHono, c: Context): Problem {
  const { method, path } = c.req;
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
