/** Assembles the Hono app of one model. Never listens, so tests can call `app.request()`. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Metrics } from "../metrics.ts";
import type { JsonSchema } from "../model/wire-schema.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { describeRoutes, documentOf } from "./openapi.ts";
import { pathOf } from "./path.ts";
import { type Problem, problemOf, problemResponse } from "./problem.ts";
import { addDocsRoutes } from "./routes/docs.ts";
import { addHealthRoutes } from "./routes/health.ts";
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
  readonly example: unknown;
}

export interface AppOptions extends PredictionRoutes {
  readonly model: ServedModel;
  readonly metrics: Metrics;
  readonly lifecycle: Lifecycle;
  /** Whether items are run now; the engine may be starting again. */
  readonly isReady: () => boolean;
  readonly version: string;
  /** Told of errors that say more than their answer does. */
  readonly onInternalError: (error: unknown) => void;
}

export function createApp(options: AppOptions): OpenAPIHono {
  const { model, metrics, lifecycle, isReady, siblings, version, onInternalError } = options;
  const app = new OpenAPIHono({ getPath: pathOf });
  const schemas = modelSchemas(model);
  describeRoutes(app, schemas, model.example);
  addPredictionRoutes(app, options);
  addHealthRoutes(app, lifecycle, isReady);
  addDocsRoutes(app, model.name);
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
  app.get("/metrics", async (c) => {
    const text = await metrics.text((await siblings?.metrics()) ?? []);
    return c.body(text, 200, { "Content-Type": metrics.contentType });
  });
  app.doc31("/openapi.json", documentOf(model, version));
  app.notFound((c) => {
    const problem = unknownRoute(app, c);
    metrics.rejected(problem.status);
    return problemResponse(c, problem);
  });
  app.onError((error, c) => {
    const problem = problemOf(error);
    metrics.rejected(problem.status);
    if (problem.status === 500 || problem.code === "predictions_unusable") onInternalError(error);
    return problemResponse(c, problem);
  });
  return app;
}

/** 405 with `Allow` where the path is known with another method, else 404. */
function unknownRoute(app: OpenAPIHono, c: Context): Problem {
  const { method, path } = c.req;
  const methods = new Set(app.routes.map((route) => route.method));
  const allowed = [...methods].filter((other) => app.router.match(other, path)[0].length > 0);
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
