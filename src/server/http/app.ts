/** Assembles the Hono app of one model. Never listens, so tests can call `app.request()`. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { cors } from "hono/cors";
import { METHOD_NAME_ALL } from "hono/router";
import type { JsonSchema } from "../../base/json-schema.ts";
import { isLogged, log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { ServeConfig } from "../config.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { addPageRoutes } from "../page/page.ts";
import { refuseOtherHosts } from "./allowed-hosts.ts";
import { refuseForeignOrigins } from "./foreign-origin.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { describeRoutes, documentOf } from "./openapi.ts";
import { pathOf } from "./path.ts";
import { type Problem, problemOf, problemResponse, refusalOf } from "./problem.ts";
import { contextOf, type RequestContext } from "./request-context.ts";
import { addDocsRoutes } from "./routes/docs.ts";
import { addHealthRoutes, addMetricsRoute } from "./routes/health.ts";
import { addOutputFileRoutes } from "./routes/output-files.ts";
import { addPredictionRoutes, type PredictionRoutes } from "./routes/predictions.ts";
import { modelSchemas } from "./schemas.ts";

/** What clients are told of the model. */
export interface ServedModel {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly description: string;
  readonly batchSize: number;
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
  readonly demoOutputSchema: JsonSchema;
  /** Inputs to try, the author's own one first. */
  readonly examples: readonly unknown[];
  /** The first of them for the documentation, with small files. */
  readonly shortExample: unknown;
}

export interface AppOptions extends PredictionRoutes {
  readonly model: ServedModel;
  readonly metrics: Metrics;
  readonly lifecycle: Lifecycle;
  readonly version: string;
  /** Whose pages may read answers, or "*"; by default none of another origin. */
  readonly corsOrigin?: readonly string[] | undefined;
  /** Names that the Host header may have. */
  readonly allowedHosts: ServeConfig["allowedHosts"];
  /** The address that the server listens on. */
  readonly host: ServeConfig["host"];
  /** Told of errors that say more than their answer does. */
  readonly onInternalError: (error: unknown, context: RequestContext) => void;
}

/** Of answers, beside those that scripts of other pages may always read. */
const exposeHeaders = ["Location", "Retry-After", "X-Request-Id", "Preference-Applied", "Allow", "Accept-Encoding"];
/** For how long a browser may keep what it was told; none keeps it for longer than two hours. */
const PREFLIGHT_S = 7200;

export function createApp(options: AppOptions): OpenAPIHono {
  const { model, metrics, lifecycle, siblings, version, onInternalError } = options;
  const app = new OpenAPIHono({ getPath: pathOf });
  const { corsOrigin } = options;
  if (corsOrigin !== undefined) {
    const origin = corsOrigin.includes("*") ? "*" : [...corsOrigin];
    const allowMethods = ["GET", "HEAD", "POST", "PUT"];
    app.use(cors({ origin, allowMethods, exposeHeaders, maxAge: PREFLIGHT_S }));
  }
  app.use(refuseOtherHosts(options), refuseForeignOrigins(corsOrigin));
  const schemas = modelSchemas(model);
  describeRoutes(app, { schemas, example: model.shortExample, hasLinks: options.links !== undefined });
  addPredictionRoutes(app, options);
  addOutputFileRoutes(app, options);
  addHealthRoutes(app, lifecycle);
  addDocsRoutes(app, model.name);
  addPageRoutes(app, { ...model, isReady: true });
  app.get("/", (c) =>
    c.json({
      name: model.name,
      tag: model.tag,
      digest: model.digest,
      description: model.description,
      batch_size: model.batchSize,
      input_schema: model.inputSchema,
      output_schema: model.outputSchema,
      demo_output_schema: model.demoOutputSchema,
    }),
  );
  app.get("/examples", (c) => c.json(model.examples));
  addMetricsRoute(app, metrics, siblings);
  app.doc31("/openapi.json", documentOf(model, version));
  const refuse = (c: Context, problem: Problem) => {
    metrics.rejected(refusalOf(problem));
    logRefusal(c, problem);
    return problemResponse(c, problem);
  };
  app.notFound((c) => refuse(c, unknownRoute(app, c)));
  app.onError((error, c) => {
    const problem = problemOf(error);
    if (problem.status === 500 || problem.code === "predictions_unusable") onInternalError(error, contextOf(c));
    return refuse(c, problem);
  });
  return app;
}

/** What the server had no room for, or was not there for, is for the operator; probes ask again and again. */
function logRefusal(c: Context, problem: Problem): void {
  const { status, detail } = problem;
  const context = contextOf(c);
  const { path } = context;
  const cause = refusalOf(problem);
  const line = () =>
    `${c.req.method} ${context.shownPath} was refused with ${status} (${cause}): ${JSON.stringify(detail)}`;
  if ((status === 429 || status === 503) && !path.startsWith("/health/")) {
    logLimit.write(cause, (...more) => log.warn(line(), ...more, context.fields({ status })));
  } else if (isLogged("debug")) {
    log.debug(line(), context.fields({ status }));
  }
}

/** 405 with `Allow` where the path is known with another method, else 404. */
function unknownRoute(app: OpenAPIHono, c: Context): Problem {
  const { method, path } = c.req;
  const methods = new Set(app.routes.map((route) => route.method));
  // Middleware takes all methods of all paths, and answers none.
  methods.delete(METHOD_NAME_ALL);
  const allowed = [...methods].filter((other) =>
    app.router.match(other, path)[0].some(([[, route]]) => route.method === other),
  );
  if (allowed.length === 0) {
    return { status: 404, code: "not_found", detail: `there is nothing at ${path}; GET /docs shows what there is` };
  }
  const allow = (allowed.includes("GET") ? ["HEAD", ...allowed] : allowed).join(", ");
  return {
    status: 405,
    code: "method_not_allowed",
    detail: `${path} takes ${allow}, not ${method}`,
    headers: { Allow: allow },
  };
}
